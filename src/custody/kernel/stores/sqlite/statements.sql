-- What only SQLite says this way.

-- name: settings
-- What our promises rest on, as it is set now; every database keeps this under its own names.
select 'journal_mode', journal_mode from pragma_journal_mode
union all select 'synchronous', cast(synchronous as text) from pragma_synchronous

-- name: leased_counts
-- Told which index: left to itself it reads every job in the order of the groups.
select kind, state, count(*), min(until) from job indexed by job_leased where holder is not null group by kind, state

-- name: last_number
-- Of the jobs' numbers that were given out.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'job'

-- name: begin_numbers
insert into sqlite_sequence (name, seq)
select 'job', 0 where not exists (select 1 from sqlite_sequence where name = 'job')

-- name: pass_over
-- So that none up to this one is given out again.
update sqlite_sequence set seq = max(seq, :highest) where name = 'job'

-- The hot verbs, many rows at a time; each row is one element of a JSON array.

-- name: claim
-- Take the first ready jobs of a queue. At most one holder has a token, and as one writes at a time nobody is passed over.
-- (PostgreSQL claims by `claim_many`.)
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move,
    attempts = attempts + 1, suspect = case when suspect > 2 then 2 else suspect end
where id in (
    select job.id from job
    where {ready} and queue = :queue and {kind_open} and {lane_open}
    order by priority, id
    limit :limit)
returning {job_columns}

-- name: settle_many
-- As `settle`, for all that make the same move.
update job set {settled}, move = given.its_move, facts = coalesce(given.its_facts, job.facts)
from (
    select value ->> 0 as its_id, value ->> 1 as its_token, value ->> 2 as its_claim, value ->> 3 as its_move,
        value ->> 4 as its_facts
    from json_each(:given)) as given
where job.id = given.its_id and job.token = given.its_token and job.move = given.its_claim and {may_settle}
returning id, token, open, parent, line, seq

-- name: insert_events
-- What was settled, in the order of the jobs.
insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
select 'job/' || (value ->> 0), value ->> 1, :type, :outcome, :agent, :now, coalesce(value ->> 4, :detail), value ->> 2,
    value ->> 3
from json_each(:told) order by key

-- Whoever waits for a job is found by it: told so, because where very many wait for one, statistics (if anyone has
-- had them made) promise that reading everything were cheaper.

-- name: meet_edges
update edge indexed by edge_target set met = 1
where target = :target and met = 0
  and exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)
returning job

-- name: disappointed
select job.id from edge indexed by edge_target join job on job.id = edge.job
where edge.target = :target and edge.met = 0 and edge.otherwise = 'skip' and job.ended is null
order by job.id

-- name: meet_many
-- As `meet_edges`, for all that have ended alike.
update edge indexed by edge_target set met = 1
where target in (select value from json_each(:targets)) and met = 0
  and exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)
returning job

-- name: in_vain_many
-- After which of these ends somebody is left who asked to be skipped.
select distinct target from edge indexed by edge_target
where target in (select value from json_each(:targets)) and met = 0 and otherwise = 'skip'
  and not exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)

-- name: count_down_many
update job set unmet = unmet - given.its_by
from (select value ->> 0 as its_id, value ->> 1 as its_by from json_each(:given)) as given
where job.id = given.its_id
returning id, unmet, ended, line

-- name: claim_onward
-- The first of these that is ready in this queue, for whoever has just made it ready.
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move, attempts = attempts + 1
where id = (
    select job.id from job
    where job.id in (select value from json_each(:given)) and {ready} and queue = :queue and {kind_open} and {lane_open}
        and not exists (select 1 from hold where scope in ('collection', 'batch'))
    order by priority, id
    limit 1)
returning {job_columns}

-- name: contested
-- Of jobs on lines: those that will supersede others, and those that a newer instance has superseded already.
select job.id from job
where job.id in (select value from json_each(:given)) and (job.supersedes > 0 or exists (
    select 1 from job as newer
    where newer.line = job.line and newer.task = job.task and newer.position > job.position and newer.supersedes = 2))

-- name: tips
-- Where the chain of each of these subjects ends.
select one.value, sealed.seq, sealed.leaf from json_each(:subjects) as one
join sealed on sealed.subject = one.value
    and sealed.seq = (select max(seq) from sealed as any where any.subject = one.value)

-- name: insert_sealed
insert into sealed (subject, seq, block, position, body, salt, leaf)
select value ->> 'subject', value ->> 'seq', value ->> 'block', value ->> 'position', value ->> 'body', value ->> 'salt',
    value ->> 'leaf'
from json_each(:leaves)

-- The rows of a page, when its keys are known.

-- name: web_jobs_these
select {job_columns} from job where id in (select value from json_each(:ids))

-- name: web_tokens_these
-- Those of them that are still worth something; a session ends with the token it was opened with.
select {token_columns} from token left join token as opener on opener.id = token.login
where token.revoked is null and token.expires > :now
  and (token.login is null or (opener.revoked is null and opener.expires > :now))
  and token.id in (select value from json_each(:ids))

-- name: web_items_these
select id, types, collection, seq, changed, fingerprint, detail, place from item where id in (select value from json_each(:ids))

-- name: web_events_these
select {event_columns} from event where id in (select value from json_each(:ids))

-- name: ready_items
-- A trigger as a question to the indexes, over a run of items: kernel/model/trigger.py (`admits`) says the same, clause by
-- clause, and is asked again about what comes out of this. Every database unfolds a list in its own way.
select id, types, collection, seq, changed, fingerprint, detail, place from item
where id > :after and id <= :last
  and (:items = '[]' or id in (select value from json_each(:items)))
  and not exists (
    select 1 from json_each(:types) as one where replace(item.types, ' ' || one.value || ' ', '') = item.types)
  and not exists (
    select 1 from json_each(:past) as one where not exists (
      select 1 from latest where latest.item = item.id and latest.type = one.value and latest.outcome in ('success', 'warning')))
  and not exists (
    select 1 from json_each(:failed) as one where not exists (
      select 1 from latest where latest.item = item.id and latest.type = one.value and latest.outcome = 'failure'))
  and not exists (
    select 1 from json_each(:absent) as one
    join latest on latest.item = item.id and latest.type = one.value)
  and not exists (
    select 1 from json_each(:old) as one
    join latest on latest.item = item.id and latest.type = one.value where latest.seen >= item.changed)
order by id
