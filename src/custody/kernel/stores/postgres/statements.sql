-- What PostgreSQL says differently, each with its reason. Everything else is the common text.
-- (In a look that writes nothing, a closing "for update" or "for share" is left out: see dialect.py.)

-- name: expired
-- Two workers that look for the lost at once find different ones.
select until, id, suspect from job where {expired} and queue >= :prefix and queue < :before and {reachable}
order by until, id limit :limit for update skip locked

-- name: due_jobs
-- Two that tick at once share the work instead of waiting for each other.
select id from job where due <= :now order by due limit :limit for update skip locked

-- name: lock_job
-- Rows can be locked here, and there are many writers.
select {job_columns} from job where id = :id for update

-- name: share_job
-- It cannot end before we are done; others may wait for it too.
select ended, state from job where id = :id for share

-- name: lock_item
-- Its sequence is drawn from under this lock.
select id, types, collection, seq, changed, fingerprint, detail, place from item where id = :id for update

-- name: older_instances
-- None of them may be claimed between the look and the move; locked in the order of their ids, as everywhere.
select {job_columns} from job
where line = :line and task = :task and position < :position and ended is null
order by id for update

-- name: disappointed
-- Locked at once and in order, so that none is deleted or resumed between the look and its skip.
select job.id from edge join job on job.id = edge.job
where edge.target = :target and edge.met = 0 and edge.otherwise = 'skip' and job.ended is null
order by job.id for update of job

-- name: due_schedules
-- A scheduler does not wait for the one that is already at it.
select name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot, by, why
from schedule where paused = 0 and next_slot <= :now order by next_slot limit 100 for update skip locked

-- name: check_lease
-- What relies on the lease commits before the lease can pass on.
select 1 from lease where {leased_so} and until > :now for share

-- name: lock_line
-- Held to the end of the transaction: an instance that becomes ready meanwhile waits here, and then sees us.
select pg_advisory_xact_lock(hashtextextended(:line || '|' || :task, 0))

-- name: lock_key
-- Held to the end of the transaction: whoever gives the same key to another kind meanwhile waits here, and then sees us.
select pg_advisory_xact_lock(hashtextextended('key|' || :within || '|' || :key, 0))

-- The hot verbs, many rows at a time. What most rows have in common travels once; what differs travels as one
-- text per column, split here at a character that no JSON text contains: measured, twice as fast as arrays of
-- text. Ids are sorted by the caller, so rows are found, and locked, in the order of their ids.

-- fragment: cut
E'\x1e'

-- fragment: none
E'\x1f'

-- A trigger or a rule may take rows away without a word. So whatever writes several rows at once divides by whether it
-- has written all of them: that is refused by the database itself, before anything is committed (connection.py tells
-- it in words).

-- fragment: rising
-- A number that is drawn is above all that this process was told of before; if not, the database has forgotten numbers
-- that it gave out, and the statement is refused: a logarithm has no other use here (connection.py tells it in words).
ln(least(id - :above::bigint, 1)) = 0

-- fragment: made_rising
-- The same of those that were made, which may be none.
(select ln(least(min(id) - :above::bigint, 1)) = 0 from made)

-- fragment: orders
-- The jobs of a request, each with its shape; their ids are drawn here, in the order of the request.
with shape as materialized (
    select * from json_to_recordset(:shapes) as shape (
        number int, kind text, state text, runnable smallint, ended text, lane text, place text, collection text,
        priority smallint, delay bigint, parent bigint, open int, when_empty text, line text, supersedes smallint,
        by text, everywhere smallint, agent text, detail text)),
given as materialized (
    select nextval('job_id_seq') as id, one.* from rows from (
        unnest(:numbers::int[]), string_to_table(:keys, {cut}, {none}), string_to_table(:payloads, {cut}),
        string_to_table(:facts, {cut}), string_to_table(:details, {cut}, {none}), string_to_table(:moves, {cut}),
        unnest(:unmets::int[]), string_to_table(:tasks, {cut}, {none}), unnest(:positions::bigint[])
    ) as one (number, key, payload, facts, detail, move, unmet, task, position))

-- fragment: new_jobs
insert into job (id, kind, key, state, runnable, ended, lane, place, collection, priority, unmet, due, payload, facts,
    parent, open, when_empty, line, task, position, supersedes, token, seq, move, created, changed, by, everywhere)
overriding system value
select given.id, shape.kind, given.key, shape.state, shape.runnable, shape.ended, shape.lane, shape.place,
    shape.collection, shape.priority, coalesce(given.unmet, 0) + case when shape.delay > 0 then 1 else 0 end,
    case when shape.delay > 0 then :now + shape.delay end, given.payload, coalesce(given.facts, '{}'), shape.parent,
    shape.open, shape.when_empty, shape.line, given.task, coalesce(given.position, 0), shape.supersedes, 1, 1,
    coalesce(given.move, :move), :now, :now, shape.by, shape.everywhere
from given join shape on shape.number = given.number

-- fragment: first_events
insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
select 'job/' || given.id, 1, 'submitted', 'none', shape.agent, :now, coalesce(given.detail, shape.detail), 1,
    coalesce(given.move, :move)
from given join shape on shape.number = given.number

-- name: keys_known
select 1 from job
join unnest(:kinds::text[], :keys::text[], :withins::text[]) as wanted (of_kind, of_key, within)
    on of_kind = kind and of_key = key and within = {key_within}
limit 1

-- name: submit_many
-- All are new: a key that is known refuses the whole statement.
{orders}, made as ({new_jobs} returning 1), told as ({first_events} returning 1)
select id, 1 / ((select count(*) from made) + (select count(*) from told) = 2 * (select count(*) from given))::int = 1
    and {rising}
from given

-- name: submit_keyed
-- Only some may be new. The inserts go by key, so that two requests with the same keys wait for each other in
-- the same order.
{orders},
made as (
    {new_jobs} order by given.key, given.id
    on conflict (kind, key, {key_within}) where key is not null do nothing
    returning id),
told as ({first_events} join made on made.id = given.id order by given.id returning 1)
select given.id, made.id is not null
    and 1 / ((select count(*) from made) = (select count(*) from told))::int = 1 and {made_rising}
from given left join made on made.id = given.id order by given.id

-- name: submit_single
-- One job and its first event: what carries many costs more than one of them does.
with made as ({new_job}), told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'job/' || made.id, 1, 'submitted', 'none', :agent, :now, :detail, 1, :move from made
    returning 1)
select id, 1 / (select count(*) from told) = 1 and {rising} from made

-- name: insert_job
with made as ({new_job}) select id, {rising} from made

-- name: share_jobs
-- As `share_job`, for many.
select id, ended from job where id = any(:ids::bigint[]) order by id for share

-- name: insert_edges
insert into edge (job, target, wants, otherwise, met)
select * from rows from (
    unnest(:jobs::bigint[]), unnest(:targets::bigint[]), string_to_table(:wants, {cut}),
    string_to_table(:otherwises, {cut}), unnest(:mets::int[]))
returning job

-- name: lock_lines
-- As `lock_line`, for all the tasks of these jobs, in one order. A statement of its own: the next one sees what was
-- committed while we waited.
select pg_advisory_xact_lock(name) from (
    select distinct hashtextextended(line || '|' || task, 0) as name from job
    where id = any(:ids::bigint[]) order by name) as locks

-- name: claim_onward
-- The first of these that is ready in this queue, for whoever has just made it ready.
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move, attempts = attempts + 1
where id = (
    select job.id from job
    where job.id = any(:ids::bigint[]) and {ready} and queue = :queue and {kind_open} and {lane_open}
        and not exists (select 1 from hold where scope in ('collection', 'batch'))
    order by priority, id
    limit 1)
returning {job_columns}

-- name: contested
-- Of jobs on lines: those that will supersede others, and those that a newer instance has superseded already.
select job.id from job
where job.id = any(:ids::bigint[]) and (job.supersedes > 0 or exists (
    select 1 from job as newer
    where newer.line = job.line and newer.task = job.task and newer.position > job.position and newer.supersedes = 2))
order by job.id

-- name: jobs_by_key
select {job_columns}, within from job
join unnest(:kinds::text[], :keys::text[], :withins::text[]) as wanted (of_kind, of_key, within)
    on of_kind = kind and of_key = key and within = {key_within}

-- name: first_moves
-- By which moves these were made.
select subject, move from event where subject = any(:subjects::text[]) and seq = 1

-- name: claim_many
-- Take the first ready jobs of several queues at once, at most a share from each. At most one holder has a token. Many
-- claim at once: each skips the rows that another is just taking. The choice is made into an array, once: a planner that
-- joins it the other way round would run it more than once and take more than the limit, and one that expects many rows
-- would read the whole table. A queue is all of one kind and one lane, so whether these are open is asked once per queue,
-- in the words in which `why` asks it of a job. The last column says whether any collection or batch is held at all, so
-- that in quiet times nobody needs to ask. From each queue what comes after a place in it, which is before its beginning
-- but for hard times (verbs/claim.py).
with wanted as materialized (
    select job.queue, job.priority, job.id from (
        select queue, split_part(queue, '|', 1) as kind, regexp_replace(queue, '^[^|]*[|][^|]*[|][^|]*[|]', '') as lane,
            priority, id
        from rows from (unnest(:queues::text[]), unnest(:priorities::smallint[]), unnest(:ids::bigint[]))
            with ordinality as one (queue, priority, id, place) order by place) as job
    where {kind_open} and {lane_open})
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move,
    attempts = attempts + 1, suspect = case when suspect > 2 then 2 else suspect end
where id = any (array (
    select taken.id from wanted cross join lateral (
        select job.id from job
        where {ready} and job.queue = wanted.queue and (job.priority, job.id) > (wanted.priority, wanted.id)
        order by job.priority, job.id
        limit :share
        for update of job skip locked) as taken
    limit :limit))
returning {job_columns}, exists (select 1 from hold where scope in ('collection', 'batch'))

-- name: holds_on
-- As `hold_on`, for many jobs.
select scope, name, who, why, since from hold
where (scope = 'collection' and name = any(:collections::text[]) and name <> '')
   or (scope = 'batch' and name = any(:batches::text[]))

-- name: renew_many
update job set until = :now + :lease
from unnest(:ids::bigint[], :tokens::bigint[], string_to_array(:claims, {cut})) as given (its_id, its_token, its_claim)
where job.id = its_id and job.id = any(:ids::bigint[]) and job.token = its_token and job.move = its_claim
    and job.holder = :holder
returning job.id, job.revoked

-- name: lock_jobs
-- Several statements are about to write these rows: lock them all first, in order.
select id from job where id = any(:ids::bigint[]) order by id for update

-- name: settle_many
-- As `settle` and its event, for all that make the same move. The case keeps the planner from looking for
-- the rows by anything but their ids: how many are leased, or in a state, it can only guess. And the ids are named
-- twice, so that it never reads the whole table to join it, as it would one that was small when the plan was made.
with given as materialized (
    select * from unnest(
        :ids::bigint[], :tokens::bigint[], string_to_array(:moves, {cut}), string_to_array(:details, {cut}, {none}),
        string_to_array(:facts, {cut}), string_to_array(:claims, {cut})
    ) as one (its_id, its_token, its_move, its_detail, its_facts, its_claim)),
moved as (
    update job set {settled}, move = its_move, facts = coalesce(its_facts, job.facts)
    from given where job.id = its_id and job.id = any(:ids::bigint[])
        and case when job.token = its_token and job.move = its_claim and {may_settle} then true else false end
    returning job.id, job.seq, job.token, job.open, job.parent, job.line, its_move, its_detail),
told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'job/' || id, seq, :type, :outcome, :agent, :now, coalesce(its_detail, :detail), token, its_move from moved
    returning 1)
select id, token / ((select count(*) from moved) = (select count(*) from told))::int, open, parent, line from moved

-- name: tell_many
-- As `meet_edges`, for all that have ended alike: who had a need met; and after which of these ends somebody
-- is left who asked to be skipped. A statement of its own, after the rows are locked.
with met as (
    update edge set met = 1
    where edge.target = any(:targets::bigint[]) and met = 0
      and exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)
    returning edge.job)
select job, true from met
union all
select distinct edge.target, false from edge
where edge.target = any(:targets::bigint[]) and met = 0 and otherwise = 'skip'
  and not exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)

-- name: count_down_many
-- And `lock_lines` for those that are ready now: what asks who is contested is a statement of its own in any case.
with counted as (
    update job set unmet = unmet - its_by
    from unnest(:ids::bigint[], :bys::int[]) as given (its_id, its_by)
    where job.id = its_id and job.id = any(:ids::bigint[])
    returning job.id, job.unmet, job.ended, job.line, job.task),
locked as materialized (
    select pg_advisory_xact_lock(name) from (
        select distinct hashtextextended(line || '|' || task, 0) as name from counted
        where line is not null and unmet = 0 and ended is null order by name) as locks)
select id, unmet, ended, line, (select count(*) from locked) from counted

-- name: forget_many
with gone as (delete from edge where job = any(:ids::bigint[]))
delete from job where id = any(:ids::bigint[]) and {unleased}

-- name: lock_items
-- As `lock_item`, for many, in the order in which all lock.
select id, types, collection, seq, changed, fingerprint, detail, place from item where id = any(:ids::text[]) order by id for update

-- name: append_many
-- One event for each of many items, under their locks: its number, the event, and that it is the newest of its type.
with given as materialized (
    select * from unnest(:items::text[], :seqs::bigint[], :types::text[], :outcomes::text[], :agents::text[],
        :details::text[], :seens::bigint[]) as one (item, seq, type, outcome, agent, detail, seen)),
numbered as (update item set seq = given.seq from given where item.id = given.item returning 1),
told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'item/' || item, seq, type, outcome, agent, :now, detail, 0, '' from given
    returning 1),
newest as (
    insert into latest (item, type, seq, outcome, seen) select item, type, seq, outcome, seen from given
    on conflict (item, type) do update set seq = excluded.seq, outcome = excluded.outcome, seen = excluded.seen
    returning 1)
select 1 / ((select count(*) from numbered) + (select count(*) from told) + (select count(*) from newest)
    = 3 * (select count(*) from given))::int

-- name: make_item
-- A new item and its first two events, the second of which is the newest of its type. Nothing if it is there already.
with made as (
    insert into item (id, types, collection, seq, changed, fingerprint, detail, place, created)
    values (:id, :types, :collection, 2, :changed, :fingerprint, :detail, :place, :now)
    on conflict (id) do nothing
    returning id),
told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'item/' || made.id, one.seq, one.type, one.outcome, one.agent, :now, one.detail, 0, ''
    from made cross join (values
        (1, :how, 'none', :by, :told), (2, :type, :outcome, :agent, :event_detail)
    ) as one (seq, type, outcome, agent, detail)
    order by one.seq
    returning 1),
newest as (
    insert into latest (item, type, seq, outcome, seen) select made.id, :type, 2, :outcome, 2 from made
    returning 1)
select id, 1 / ((select count(*) from told) + (select count(*) from newest) = 3)::int from made

-- name: look_at_one
-- An item, its newest events and the subscribers that may be interested (their triggers are texts: each that mentions the
-- word, and all when it is one for all), as they stand at one moment; nothing is locked.
select id, types, collection, seq, changed, fingerprint, detail, place,
    (select json_agg(json_build_array(latest.type, latest.seq, latest.outcome, latest.seen))
     from latest where latest.item = item.id),
    (select json_agg(json_build_array(kind, trigger, facts, priority_from)) from subscriber where strpos(trigger, :word) > 0)
from item where id = :id

-- name: append_one
-- One event and the jobs that it makes ready, if the item still stands where it was looked at: whatever happens to an
-- item takes a number of its sequence. Whoever comes second waits for the row and then finds another number there.
with numbered as (update item set seq = seq + 1 where id = :item and seq = :seq returning seq),
told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'item/' || :item, seq, :type, :outcome, :agent, :now, :detail, 0, :move from numbered
    returning id),
newest as (
    insert into latest (item, type, seq, outcome, seen)
    select :item, :type, seq, :outcome, coalesce(:seen::bigint, seq) from numbered
    on conflict (item, type) do update set seq = excluded.seq, outcome = excluded.outcome, seen = excluded.seen
    returning 1),
ready as (select * from unnest(:kinds::text[], :priorities::bigint[], :details::text[]) as one (kind, priority, detail)),
made as (
    insert into job (kind, key, state, runnable, lane, place, collection, priority, unmet, payload, facts, token, seq,
        move, created, changed, by, everywhere)
    select ready.kind, :key, :state, :runnable, :lane, :place, :collection, ready.priority, 0, :payload, :facts, 1, 1,
        :move, :now, :now, :by, 1
    from numbered cross join ready order by ready.kind
    on conflict (kind, key, {key_within}) where key is not null do nothing
    returning id, kind),
begun as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'job/' || made.id, 1, 'submitted', 'none', 'engine', :now, ready.detail, 1, :move
    from made join ready on ready.kind = made.kind
    returning 1)
select coalesce((select id from told), 0)
    / ((select count(*) from told) + (select count(*) from newest) + (select count(*) from begun)
        = 2 + (select count(*) from made) and {made_rising})::int
from numbered

-- name: appended_by_move
select id from event where subject = :subject and move = :move order by seq limit 1

-- name: latest_many
-- Only what somebody asks about: an item may have had many more events.
select item, type, seq, outcome, seen from latest where item = any(:ids::text[]) and type = any(:types::text[])

-- name: get_many
select item.id, types, collection, item.seq, changed, fingerprint, detail, place,
    latest.type, latest.seq, latest.outcome, latest.seen
from item left join latest on latest.item = item.id and latest.type = any(:types::text[])
where item.id = any(:ids::text[])

-- name: settings
-- What our promises rest on, as it is set now; every database keeps this under its own names.
select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') order by name

-- name: standbys
-- Of which sort this server is. Whose names may not be read can still be counted.
select case when current_setting('synchronous_standby_names') <> '' then 'synchronous'
    when exists (select 1 from pg_stat_replication) then 'asynchronous' else 'alone' end

-- name: strangers
-- Triggers and rules on our tables: the store has none of its own. The last column says whether it can keep a row from
-- being written: one for each row, before it. All others run when our statements have counted what they wrote, and can
-- take it away again.
select 'trigger', tgname::text, relname::text, tgtype & 1 = 1 and tgtype & 2 = 2
from pg_trigger join pg_class on pg_class.oid = tgrelid
where not tgisinternal and tgenabled <> 'D' and tgrelid in (select to_regclass(one) from unnest(:tables::text[]) as one)
union all
select 'rule', rulename::text, relname::text, true
from pg_rewrite join pg_class on pg_class.oid = ev_class
where ev_enabled <> 'D' and ev_class in (select to_regclass(one) from unnest(:tables::text[]) as one)

-- name: tips
-- Where the chain of each of these subjects ends.
select one.subject, last.seq, last.leaf from json_array_elements_text(:subjects::json) as one (subject)
cross join lateral (
    select seq, leaf from sealed where sealed.subject = one.subject collate "C" order by seq desc limit 1) as last

-- name: insert_sealed
with given as materialized (
    select * from json_to_recordset(:leaves::json) as one (
        subject text, seq bigint, block bigint, position bigint, body text, salt text, leaf text)),
kept as (
    insert into sealed (subject, seq, block, position, body, salt, leaf) select * from given
    returning 1)
select 1 / ((select count(*) from kept) = (select count(*) from given))::int

-- The dashboard's walks. Asked for "kind = and state =, by id", a planner may walk down the primary key instead and
-- wait for rows that fit, which are perhaps all at its other end; asked for a range of the index's own columns in
-- the index's own order, it has one way to go.

-- name: web_walk_state
select id, {web_fits} from job
where (kind, state, id) < (:of_kind, :at_state, :start) and (kind, state, id) > (:of_kind, :at_state, 0)
order by kind desc, state desc, id desc limit :look

-- name: web_walk_collection
select id, {web_fits} from job
where (collection, id) < (:within, :start) and (collection, id) > (:within, 0) and collection <> ''
order by collection desc, id desc limit :look

-- name: web_walk_failed
select id, {web_fits} from job
where ended = 'failed' and (kind, code, id) < (:of_kind, :as_code, :start) and (kind, code, id) > (:of_kind, :as_code, 0)
order by kind desc, code desc, id desc limit :look

-- name: web_walk_ended
select id, {web_fits} from job
where (parent, ended, id) > (:parent, :as_ended, :start) and (parent, ended, id) < (:parent, :as_ended, {beyond})
  and parent is not null
order by parent, ended, id limit :look

-- name: web_walk_items_in
select id, {web_item_fits} from item
where (collection, id) > (:within, :start) and (collection, id) >= (:within, :first)
  and (collection, id) < (:within, :last)
order by collection, id limit :look

-- name: web_first_at
select {job_columns} from job
where (kind, state, id) > (:kind, :state, 0) and (kind, state, id) < (:kind, :state, {beyond}) and {unleased}
order by kind, state, id limit 1

-- name: web_ended_since
select changed from (
    select job.changed from job
    where (kind, state, id) < (:kind, :state, {beyond}) and (kind, state, id) > (:kind, :state, 0)
    order by kind desc, state desc, id desc limit 5000) as newest
where changed > :since

-- fragment: beyond
-- No job has so high a number.
9223372036854775807

-- name: insert_missed
-- Every database unfolds a list in its own way.
insert into slot (schedule, slot, outcome)
select :schedule, one::bigint, 'missed' from json_array_elements_text(:slots::json) as one
on conflict (schedule, slot) do nothing

-- The rows of a page, when its keys are known.

-- name: web_jobs_these
select {job_columns} from job
where id in (select cast(one as bigint) from json_array_elements_text(cast(:ids as json)) as one)

-- name: web_tokens_these
-- Those of them that are still worth something; a session ends with the token it was opened with.
select {token_columns} from token left join token as opener on opener.id = token.login
where token.revoked is null and token.expires > :now
  and (token.login is null or (opener.revoked is null and opener.expires > :now))
  and token.id in (select cast(one as bigint) from json_array_elements_text(cast(:ids as json)) as one)

-- name: web_items_these
select id, types, collection, seq, changed, fingerprint, detail, place from item
where id in (select one collate "C" from json_array_elements_text(cast(:ids as json)) as one)

-- name: web_events_these
select {event_columns} from event
where id in (select cast(one as bigint) from json_array_elements_text(cast(:ids as json)) as one)

-- name: ready_items
-- A trigger as a question to the indexes, over a run of items: kernel/model/trigger.py (`admits`) says the same, clause by
-- clause, and is asked again about what comes out of this. Every database unfolds a list in its own way.
select id, types, collection, seq, changed, fingerprint, detail, place from item
where id > :after and id <= :last
  and (:items = '[]' or id in (select value from json_array_elements_text(:items::json) as one (value)))
  and not exists (
    select 1 from json_array_elements_text(:types::json) as one (value) where replace(item.types, ' ' || one.value || ' ', '') = item.types)
  and not exists (
    select 1 from json_array_elements_text(:past::json) as one (value) where not exists (
      select 1 from latest where latest.item = item.id and latest.type = one.value and latest.outcome in ('success', 'warning')))
  and not exists (
    select 1 from json_array_elements_text(:failed::json) as one (value) where not exists (
      select 1 from latest where latest.item = item.id and latest.type = one.value and latest.outcome = 'failure'))
  and not exists (
    select 1 from json_array_elements_text(:absent::json) as one (value)
    join latest on latest.item = item.id and latest.type = one.value)
  and not exists (
    select 1 from json_array_elements_text(:old::json) as one (value)
    join latest on latest.item = item.id and latest.type = one.value where latest.seen >= item.changed)
order by id
