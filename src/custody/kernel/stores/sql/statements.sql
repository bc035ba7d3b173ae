-- Every statement of the store, in the dialect that SQLite and PostgreSQL share.
-- Parameters are :names. A fragment is a condition with a name; the claim ANDs fragments to decide, and
-- `why` selects the very same fragments as columns to explain, so the two cannot disagree.

-- fragment: work_to_do
-- Its state is one in which a worker has something to do.
job.runnable = 1

-- fragment: needs_met
-- Everything it waits for has come, its time included.
job.unmet = 0

-- fragment: unleased
-- Nobody is working on it.
job.holder is null

-- fragment: kind_open
-- Its whole queue is not paused.
not exists (select 1 from hold where hold.scope = 'kind' and hold.name = job.kind)

-- fragment: lane_open
-- Its lane (a storage node, an archive) is not paused.
not exists (select 1 from hold where hold.scope = 'lane' and hold.name = job.lane)

-- fragment: ready
{work_to_do} and {needs_met} and {unleased}

-- fragment: expired
-- A lease that ended without a word.
job.holder is not null and job.until <= :now

-- fragment: reachable
-- Pinned to no place, or to the one that asks (which may not say where it is: then any).
(cast(:place as text) is null or job.place in ('', :place))

-- fragment: job_columns
job.id, job.kind, job.key, job.state, job.runnable, job.ended, job.lane, job.place, job.collection, job.priority,
job.unmet, job.due, job.payload, job.facts, job.attempts, job.crashes, job.retries, job.last_passed, job.parent,
job.open, job.when_empty, job.line, job.task, job.position, job.supersedes, job.token, job.seq, job.move,
job.holder, job.until, job.suspect, job.revoked, job.code, job.created, job.changed, job.by

-- fragment: block_columns
block.number, block.origin, block.algorithm, block.previous, block.root, block.count, block.total, block.at,
block.complete, block.frontier, block.signature, block.last_event

-- fragment: event_columns
event.id, event.subject, event.seq, event.type, event.outcome, event.agent, event.at, event.detail, event.token,
event.move

-- name: ready_queues
-- The queues that have something ready: from each, one step down the ready index to the next.
with recursive step (queue, steps) as (
    select min(job.queue), 1 from job where {ready} and job.queue > :after and job.queue < :before
    union all
    select (select min(job.queue) from job where {ready} and job.queue > step.queue and job.queue < :before), steps + 1
    from step where step.queue is not null and steps < :limit)
select queue from step where queue is not null

-- name: coming_queues
-- Those in which a job waits for its time alone, which comes soon, and that are not paused.
select distinct job.queue from job
where job.due <= :now + :within and {work_to_do} and job.unmet = 1 and {unleased} and {kind_open} and {lane_open}
    and job.queue > :after and job.queue < :before
limit :limit

-- name: queue_open
-- May anything of this queue be claimed? Asked of the first that is ready; none when none is.
select {kind_open} and {lane_open} from job where {ready} and queue = :queue limit 1

-- name: expired
-- Leases that ended without a word. Those left behind first go first, so that one that kills its worker again and
-- again does not keep its neighbours waiting.
select until, id, suspect from job where {expired} and queue >= :prefix and queue < :before and {reachable}
order by until, id limit :limit

-- name: claim_expired
-- Take over a job whose holder vanished. What that says against the job itself depends on its mark (kernel/model/suspicion.py):
-- in a batch of a hundred, ninety-nine were only neighbours.
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move,
    attempts = attempts + 1, crashes = crashes + case suspect when 4 then 2 when 3 then 1 else 0 end,
    suspect = case when suspect < 2 then 1 else 2 end
where id = :id and {expired}
returning {job_columns}

-- name: claim_job
-- Take this very job, if it is ready: for passes, which choose for themselves.
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move,
    attempts = attempts + 1, suspect = case when suspect > 2 then 2 else suspect end
where id = :id and {ready} and {kind_open} and {lane_open}
returning {job_columns}

-- name: claimed_by_move
-- What an earlier claim of ours took, when its answer was lost.
select {job_columns} from job where move = :move and holder = :holder

-- name: anything_held
-- Is any collection or batch held at all?
select 1 from hold where scope in ('collection', 'batch') limit 1

-- name: hold_on
-- A hold on the collection or the batch of a job.
select scope, name, who, why, since from hold
where (scope = 'collection' and name = :collection and :collection <> '') or (scope = 'batch' and name = :batch)
order by scope limit 1

-- fragment: claimed_so
-- By this very claim. A number and a token may be given out twice, when a standby is promoted that lacked the first; the
-- move of a claim stays with the row for as long as it is leased, and no two claims share one.
job.token = :token and job.move = :claimed

-- name: renew
-- Only the current token renews; a revoked holder may renew while it makes sure that its work is dead.
update job set until = :now + :lease
where id = :id and {claimed_so} and holder = :holder
returning revoked

-- name: release
-- Give a job back unworked: nothing happened, so no event and no attempt.
update job
set holder = null, until = 0, token = token + 1, attempts = attempts - 1
where id = :id and {claimed_so} and holder = :holder and revoked is null
returning id

-- name: suspect
-- What is to be thought of the job if this lease ends without a word.
update job set suspect = :suspect where id = :id and {claimed_so} and holder = :holder
returning id

-- fragment: settled
-- What a worker's move makes of the row, besides its move and its facts.
state = :to_state, runnable = :runnable, ended = :ended, holder = null, until = 0, revoked = null, suspect = 0,
token = job.token + 1, seq = job.seq + 1, changed = :now,
priority = coalesce(:priority, job.priority), lane = coalesce(:lane, job.lane), place = coalesce(:place, job.place),
last_passed = coalesce(:last_passed, job.last_passed), code = :code,
retries = job.retries + :retries, open = job.open + :open,
attempts = case when job.state = :to_state then job.attempts + :attempts else 0 end,
crashes = case when job.state = :to_state then job.crashes else 0 end,
due = case when :delay > 0 then :now + :delay end,
unmet = job.unmet + case when :delay > 0 then 1 else 0 end

-- fragment: may_settle
-- The job is where we think it is, and a revoked holder may say only that its work has ended.
job.state = :from_state and job.holder is not null
and (job.revoked is null or :ended in ('cancelled', 'superseded'))

-- name: mark
-- What follows can be undone by itself.
savepoint one_move

-- name: back_to_mark
rollback to savepoint one_move

-- name: drop_mark
release savepoint one_move

-- name: settle
-- One move. The token says that the lease is still ours, the claim's move that it is the same job.
update job
set {settled}, move = :move, facts = coalesce(:facts, facts)
where id = :id and {claimed_so} and {may_settle}
returning {job_columns}

-- name: move
-- The same by an administrator: no token, so nobody may be working on it. One that stays where it is (another
-- priority) keeps its time, its tries and its failure.
update job
set state = :to_state, runnable = :runnable, ended = :ended,
    token = token + 1, seq = seq + 1, move = :move, changed = :now,
    priority = coalesce(:priority, priority), lane = coalesce(:lane, lane), place = coalesce(:place, place),
    last_passed = coalesce(:last_passed, last_passed), facts = coalesce(:facts, facts),
    code = case when state = :to_state then coalesce(:code, code) else :code end,
    retries = retries + :retries, open = open + :open,
    attempts = case when state = :to_state then attempts else 0 end,
    crashes = case when state = :to_state then crashes else 0 end,
    unmet = unmet - case when due is not null and (state <> :to_state or :delay > 0) then 1 else 0 end
        + case when :delay > 0 then 1 else 0 end,
    due = case when :delay > 0 then :now + :delay when state = :to_state then due end
where id = :id and state = :from_state and {unleased}
returning {job_columns}

-- name: revoke
-- Ask the holder to stop. Its token stays good for one word: that the work is dead.
update job set revoked = :revoked, seq = seq + 1, changed = :now
where id = :id and holder is not null and ended is null and revoked is null
returning {job_columns}

-- name: keep
-- Save facts at once under the claim's token; a revoked holder has nothing more to save.
update job set facts = :facts, seq = seq + 1, changed = :now, open = open + :open
where id = :id and {claimed_so} and holder is not null and revoked is null
returning seq

-- fragment: key_within
-- Where a key is the only one of its kind: in its collection, so that nobody meets the keys of others; or everywhere, as
-- what is ready for a subscriber, wherever the item was moved meanwhile. As NewJob.key_within.
(case when everywhere = 1 then '' else collection end)

-- fragment: new_job
insert into job (kind, key, state, runnable, ended, lane, place, collection, priority, unmet, due, payload, facts,
    parent, open, when_empty, line, task, position, supersedes, token, seq, move, created, changed, by, everywhere)
values (:kind, :key, :state, :runnable, :ended, :lane, :place, :collection, :priority, :unmet,
    case when :delay > 0 then :now + :delay end, :payload, :facts,
    :parent, :open, :when_empty, :line, :task, :position, :supersedes, 1, 1, :move, :now, :now, :by, :everywhere)
on conflict (kind, key, {key_within}) where key is not null do nothing
returning id

-- name: insert_job
{new_job}

-- name: job_by_key
select {job_columns} from job where kind = :kind and key = :key

-- name: job_of_key
-- The one that a submit with this key means.
select {job_columns} from job where kind = :kind and key = :key and {key_within} = :within

-- name: hand_in
-- The first to come with a key has it for good; whoever comes with it at the same time waits for how that ended.
insert into handed_in (key, batch, fingerprint, at) values (:key, 0, :fingerprint, :now)
on conflict (key) do nothing

-- name: handed_in_as
insert into handed_in (key, batch, fingerprint, at) values (:key, :batch, :fingerprint, :now)
on conflict (key) do update set batch = excluded.batch

-- name: handed_in
select batch, fingerprint from handed_in where key = :key

-- name: lock_key
-- Two that give one key to jobs of two kinds must see each other; one writer sees everything anyway.
select 1

-- name: jobs_with_key
-- Of whichever kind: one step down the index of keys for each kind there is.
with recursive step (of_kind) as (
    select min(kind) from job
    union all
    select (select min(job.kind) from job where job.kind > step.of_kind) from step where step.of_kind is not null)
select {job_columns} from job where kind in (select of_kind from step where of_kind is not null) and key = :key
order by id

-- name: job
select {job_columns} from job where id = :id

-- name: lock_job
-- Where rows can be locked, the dialect's own file does so; one writer needs no lock.
select {job_columns} from job where id = :id

-- name: share_job
-- As lock_job, but only so that the job cannot end before we are done.
select ended, state from job where id = :id

-- name: delete_job
delete from job where id = :id and {unleased} returning parent, ended

-- name: delete_edges_of
delete from edge where job = :id

-- name: insert_edge
insert into edge (job, target, wants, otherwise, met) values (:job, :target, :wants, :otherwise, :met)
on conflict (job, target) do nothing

-- name: need_more
-- One more thing to wait for, though an earlier edge to the same job may have been met long ago.
insert into edge (job, target, wants, otherwise, met) values (:job, :target, :wants, :otherwise, :met)
on conflict (job, target) do update set wants = excluded.wants, otherwise = excluded.otherwise, met = excluded.met
where edge.met = 1
returning job

-- name: meet_edges
-- Those who waited for this end. A statement of its own, after the row is locked: it must see every edge
-- that was committed while we waited for that lock.
update edge set met = 1
where target = :target and met = 0
  and exists (select 1 from satisfies where satisfies.wants = edge.wants and satisfies.ended = :ended)
returning job

-- name: count_down
update job set unmet = unmet - :by where id = :id
returning {job_columns}

-- name: give_up_on_gone
-- Whoever resumes a job that waited for one that was deleted wants it to go on without that.
update edge set met = 1
where job = :id and met = 0 and not exists (select 1 from job where job.id = edge.target)
returning target

-- name: count_up
update job set unmet = unmet + :by where id = :id
returning id

-- name: disappointed
-- Those whose need can no longer be met and who asked to be skipped then.
select job.id from edge join job on job.id = edge.job
where edge.target = :target and edge.met = 0 and edge.otherwise = 'skip' and job.ended is null
order by job.id

-- name: edges_from
select edge.target, edge.wants, edge.otherwise, edge.met, job.kind, job.key, job.state, job.ended, job.task, job.position
from edge left join job on job.id = edge.target
where edge.job = :id order by edge.target

-- name: edges_to
select edge.job, edge.wants, edge.otherwise, edge.met from edge where edge.target = :id order by edge.job limit :limit

-- name: left_behind
-- Those whose need was not met, and who asked to be skipped then.
select edge.job from edge where edge.target = :id and edge.met = 0 and edge.otherwise = 'skip' order by edge.job

-- name: older_instances
-- Every unfinished older instance of a task on a line, in the order in which all lock.
select {job_columns} from job
where line = :line and task = :task and position < :position and ended is null
order by id

-- name: lock_line
-- Two instances of one task that become ready at once must see each other; one writer sees everything anyway.
select 1

-- name: newer_superseder
-- An instance further on that has already made older ones pointless.
select id from job
where line = :line and task = :task and position > :position and supersedes = 2
order by position limit 1

-- name: mark_superseding
update job set supersedes = 2 where id = :id and supersedes = 1

-- name: child_ended
-- Count one child less; whoever brings the count to nothing moves the parent on.
update job set open = open + :by where id = :id
returning {job_columns}

-- name: emptied
update job
set state = when_empty, when_empty = null, runnable = 1, token = token + 1, seq = seq + 1, move = :move, changed = :now
where id = :id and open = 0 and when_empty is not null and ended is null and {unleased}
returning {job_columns}

-- name: due_jobs
select id from job where due <= :now order by due limit :limit

-- name: come_due
update job set unmet = unmet - 1, due = null where id = :id and due <= :now
returning {job_columns}

-- name: why
-- The claim's own conditions, one by one.
select {work_to_do}, {needs_met}, {unleased}, {kind_open}, {lane_open}, (job.place = '' or job.place = :place),
    {job_columns}
from job where job.id = :id

-- name: ahead
-- How many go first in its queue (counted no further than a thousand).
select count(*) from (
    select 1 from job
    where {ready} and queue = :queue and (priority < :priority or (priority = :priority and id < :id))
    limit 1000) as first

-- name: counts
-- How many jobs stand where.
select kind, state, count(*) from job group by kind, state order by kind, state

-- name: leased_counts
select kind, state, count(*), min(until) from job where holder is not null group by kind, state

-- name: failure_groups
-- Failures by cause: what an operator fixes once and resumes together.
select kind, state, code, count(*), min(id), max(id), max(changed)
from job where ended = 'failed' group by kind, state, code order by count(*) desc, kind, code limit :limit

-- name: children
select {job_columns} from job where parent = :parent and id > :after order by id limit :limit

-- name: children_counts
select state, count(*) from job where parent = :parent group by state order by state

-- name: insert_event
insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
values (:subject, :seq, :type, :outcome, :agent, :now, :detail, :token, :move)
returning id

-- name: events
select {event_columns} from event where subject = :subject and seq > :after order by seq limit :limit

-- name: recent_events
select {event_columns} from event where id < :before order by id desc limit :limit

-- name: events_after
select {event_columns} from event where id > :after order by id limit :limit

-- name: event
select {event_columns} from event where id = :id

-- name: failures_before
-- Since it came to its state: whatever has taken it there is among these.
select count(*) from event
where subject = :subject and type = 'retried' and seq > coalesce((
    select max(seq) from event as came where came.subject = :subject
        and came.type in ('submitted', 'passed', 'released', 'resumed')), 0)

-- name: event_of_move
-- Was this very move written? Asked after a lost answer.
select seq, token from event where subject = :subject and move = :move limit 1

-- name: submitted_by_move
-- The jobs of a submit whose answer was lost, in no order: its events are among the newest.
select subject from event
where id > (select coalesce(max(id), 0) - 1000000 from event) and move = :move and type = 'submitted'

-- name: next_subject_seq
insert into subject (subject, seq) values (:subject, 1)
on conflict (subject) do update set seq = subject.seq + 1
returning seq

-- name: set_hold
insert into hold (scope, name, who, why, since) values (:scope, :name, :who, :why, :now)
on conflict (scope, name) do nothing
returning scope

-- name: lift_hold
delete from hold where scope = :scope and name = :name returning scope

-- name: holds
select scope, name, who, why, since from hold order by since, scope, name

-- name: hold
select scope, name, who, why, since from hold where scope = :scope and name = :name

-- name: take_lease
-- Free, or ended; never by name alone, as a restarted process is another one. The token rises each time.
insert into lease (name, holder, token, until, since) values (:name, :holder, 1, :now + :lease, :now)
on conflict (name) do update
set holder = excluded.holder, token = lease.token + 1, until = excluded.until, since = excluded.since
where lease.holder is null or lease.until <= :now
returning name, holder, token, until, since

-- name: inherit_lease
-- The same, and what this holder itself left behind: only for a name that nobody else can bear at the time.
insert into lease (name, holder, token, until, since) values (:name, :holder, 1, :now + :lease, :now)
on conflict (name) do update
set holder = excluded.holder, token = lease.token + 1, until = excluded.until, since = excluded.since
where lease.holder is null or lease.until <= :now or lease.holder = excluded.holder
returning name, holder, token, until, since

-- fragment: leased_so
-- This very lease, and none of the same token in another history.
lease.name = :name and lease.holder = :holder and lease.token = :token and lease.since = :since

-- name: renew_lease
update lease set until = :now + :lease
where {leased_so} and until > :now
returning name, holder, token, until, since

-- name: free_lease
update lease set holder = null, until = 0, token = token + 1
where {leased_so}
returning name

-- name: break_lease
-- An administrator takes a lease away; the token rises, so its holder is fenced out.
update lease set holder = null, until = 0, token = token + 1
where name = :name and holder is not null
returning name

-- name: lease
select name, holder, token, until, since from lease where name = :name

-- name: leases
select name, holder, token, until, since from lease where holder is not null order by name

-- name: check_lease
-- Does this token still hold? Asked in the transaction that relies on it.
select 1 from lease where {leased_so} and until > :now

-- name: set_schedule
-- Setting the same times again (as every start of an application does) must not forget the slots that have come.
insert into schedule (name, spec, zone, kind, payload, lane, overlap, missed, last_slot, next_slot, by)
values (:name, :spec, :zone, :kind, :payload, :lane, :overlap, :missed, :now, :next_slot, :by)
on conflict (name) do update
set spec = excluded.spec, zone = excluded.zone, kind = excluded.kind, payload = excluded.payload,
    lane = excluded.lane, overlap = excluded.overlap, missed = excluded.missed,
    next_slot = case when schedule.spec = excluded.spec and schedule.zone = excluded.zone
        then schedule.next_slot else excluded.next_slot end,
    by = excluded.by, why = ''

-- name: adopt_schedule
-- From now on it runs on somebody else's behalf, from the next slot on if it had stopped.
update schedule set by = :by, why = '', paused = 0, next_slot = :next_slot where name = :name returning name

-- name: schedules
select name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot, by, why
from schedule order by name

-- name: schedule
select name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot, by, why
from schedule where name = :name

-- name: due_schedules
select name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot, by, why
from schedule where paused = 0 and next_slot <= :now order by next_slot limit 100

-- name: next_schedule
select min(next_slot) from schedule where paused = 0

-- name: advance_schedule
-- Only from the slot that was seen: of two schedulers one wins.
update schedule set last_slot = :slot, next_slot = :next_slot
where name = :name and next_slot = :seen
returning name

-- name: pause_schedule
update schedule set paused = :paused, next_slot = :next_slot, why = :why where name = :name returning name

-- name: drop_schedule
delete from schedule where name = :name returning name

-- name: insert_slot
insert into slot (schedule, slot, job, outcome) values (:schedule, :slot, :job, :outcome)
on conflict (schedule, slot) do nothing
returning slot

-- name: insert_missed
insert into slot (schedule, slot, outcome) select :schedule, value, 'missed' from json_each(:slots) where true
on conflict (schedule, slot) do nothing

-- name: slot_job
select job from slot where schedule = :schedule and slot = :slot

-- name: slots
select slot, job, outcome from slot where schedule = :schedule order by slot desc limit :limit

-- name: last_run
select job.ended, job.id from slot join job on job.id = slot.job
where slot.schedule = :schedule and slot.outcome = 'ran' order by slot.slot desc limit 1

-- name: item
select id, types, collection, seq, changed, fingerprint, detail, place from item where id = :id

-- name: formers
select spelled from spelling where owner = :owner and normal = :normal order by spelled

-- name: formers_unread
select owner, spelled from spelling where normal = '' limit 1000

-- name: former_read
update spelling set normal = :normal where owner = :owner and spelled = :spelled

-- name: former_drop
delete from spelling where owner = :owner and spelled = :spelled

-- name: lock_item
select id, types, collection, seq, changed, fingerprint, detail, place from item where id = :id

-- name: insert_item
insert into item (id, types, collection, seq, changed, fingerprint, detail, place, created)
values (:id, :types, :collection, :seq, :changed, :fingerprint, :detail, :place, :now)
on conflict (id) do nothing
returning id

-- name: change_item
update item
set seq = :seq, changed = :changed, types = :types, collection = :collection, fingerprint = :fingerprint,
    detail = :detail, place = :place
where id = :id

-- name: number_item
update item set seq = seq + 1 where id = :id
returning id, types, collection, seq, changed, fingerprint, detail, place

-- name: items
-- A type is looked for as it is written: `like` has wildcards, and SQLite's does not tell A from a.
select id, types, collection, seq, changed, fingerprint, detail, place from item
where id > :after and (:collection = '' or collection = :collection)
  and (:type = '' or replace(types, :type, '') <> types)
order by id limit :limit

-- name: unplaced
select item, folder from unplaced where item > :after order by item limit :limit

-- name: set_place
-- Only where nobody has said since where it is.
update item set place = :place where id = :id and place = ''

-- name: try_to_write
-- Always taken back (recovery/trial.py).
insert into unplaced (item, folder) values (:item, :folder)

-- name: drop_unplaced
delete from unplaced where item = :item

-- name: set_latest
insert into latest (item, type, seq, outcome, seen) values (:item, :type, :seq, :outcome, :seen)
on conflict (item, type) do update set seq = excluded.seq, outcome = excluded.outcome, seen = excluded.seen

-- name: delete_latest
delete from latest where item = :item and type = :type

-- name: latest
select type, seq, outcome, seen from latest where item = :item

-- name: set_subscription
insert into subscriber (kind, trigger, facts, priority_from) values (:kind, :trigger, :facts, :priority_from)
on conflict (kind) do update set trigger = excluded.trigger, facts = excluded.facts, filled = '',
    priority_from = excluded.priority_from
where subscriber.trigger <> excluded.trigger or subscriber.facts <> excluded.facts
returning kind

-- name: drop_subscription
delete from subscriber where kind = :kind returning kind

-- name: subscriptions
select kind, trigger, facts, filled, priority_from from subscriber order by kind

-- name: set_filled
update subscriber set filled = :filled where kind = :kind

-- name: application_versions
-- How far the line of each application has come.
select application, max(version) from application_version group by application order by application

-- name: bump
insert into counter (name, value) values (:name, :by)
on conflict (name) do update set value = counter.value + excluded.value
returning value

-- name: counter
select value from counter where name = :name

-- name: beat_worker
insert into worker (id, host, pid, place, serves, started, seen)
values (:id, :host, :pid, :place, :serves, :now, :now)
on conflict (id) do update set seen = excluded.seen

-- name: acting_since
-- When the store began to write down who asked for a job.
select applied from schema_version where version = 15

-- name: offer_kind
insert into open_kind (kind, since, seen) values (:kind, :now, :now)
on conflict (kind) do update set seen = excluded.seen

-- name: collections_in_use
-- All names that jobs and items have for a collection: a new one must not look like one of them. One step for each.
with recursive of_jobs (collection) as (
    select min(collection) from job where collection > '' and collection <> ''
    union all
    select (select min(job.collection) from job where job.collection > of_jobs.collection and job.collection <> '') from of_jobs
    where of_jobs.collection is not null
), of_items (collection) as (
    select min(collection) from item where collection > ''
    union all
    select (select min(item.collection) from item where item.collection > of_items.collection) from of_items
    where of_items.collection is not null
)
select collection from of_jobs where collection is not null
union select collection from of_items where collection is not null

-- name: open_kinds
select kind, since, seen from open_kind order by kind

-- name: forget_kind
delete from open_kind where kind = :kind returning kind

-- name: workers
select id, host, pid, place, serves, started, seen from worker where seen > :since order by host, pid

-- name: drop_worker
delete from worker where id = :id

-- name: forget_workers
delete from worker where seen < :before

-- Derived must equal recomputed. Each recount answers (subject, what is on record, what it should be), and should
-- answer nothing; the tests ask after every test, `custody doctor` whenever someone wants to know.

-- name: recount_unmet
-- Jobs whose counter of needs is not what their edges say.
select 'job/' || job.id, job.unmet, coalesce(waiting.n, 0) + case when job.due is not null then 1 else 0 end
from job left join (select edge.job as job, count(*) as n from edge where met = 0 group by edge.job) as waiting
    on waiting.job = job.id
where job.unmet <> coalesce(waiting.n, 0) + case when job.due is not null then 1 else 0 end

-- name: recount_met
-- Lost wake-ups: edges that count as unmet although what they wait for has ended as they want it.
select 'job/' || edge.job, 'waits for job ' || job.id, 'met: it has ended as ' || job.ended
from edge join job on job.id = edge.target
    join satisfies on satisfies.wants = edge.wants and satisfies.ended = job.ended
where edge.met = 0

-- name: recount_open
-- Parents whose count of open children is not the number of them (one that has not done fanning out, or was
-- held or ended before it could, counts itself).
select 'job/' || job.id, job.open, coalesce(children.n, 0)
from job left join (select parent, count(*) as n from job where parent is not null and ended is null group by parent)
    as children on children.parent = job.id
where job.open <> coalesce(children.n, 0)
  and not (job.open = coalesce(children.n, 0) + 1 and job.when_empty is not null and (job.runnable = 1 or job.state = 'held' or job.ended is not null))

-- name: recount_lease
-- Rows whose lease says two things at once: an end or a stop without a holder, a holder of what has ended.
select 'job/' || job.id, coalesce(holder, 'nobody'), 'one holder until a time, or none of it'
from job
where (holder is null) <> (until = 0) or (holder is null and revoked is not null)
  or (ended is not null and (holder is not null or runnable = 1))

-- name: recount_latest
-- Items whose newest event of a type is not the one on record (one that was withdrawn since may be passed over).
select 'item/' || latest.item, latest.type || ' number ' || latest.seq || ', ' || latest.outcome, 'its newest ' || latest.type
from latest
where not exists (
    select 1 from event where event.subject = 'item/' || latest.item and event.seq = latest.seq
      and event.type = latest.type and event.outcome = latest.outcome)
  or exists (
    select 1 from event where event.subject = 'item/' || latest.item and event.seq > latest.seq
      and event.type = latest.type
      and not exists (
        select 1 from event as later where later.subject = event.subject and later.seq > event.seq
          and later.type = 'withdrawn'))

-- name: recount_sequences
-- Subjects whose events are not numbered 1, 2, 3 …
select subject, max(seq), count(*) from event group by subject having count(*) <> max(seq) or min(seq) <> 1

-- name: recount_numbers
-- Jobs and items that have given out more or fewer numbers than there are events.
select subject, seq, events from (
    select 'job/' || job.id as subject, job.seq as seq,
        (select count(*) from event where event.subject = 'job/' || job.id) as events from job
    union all
    select 'item/' || item.id, item.seq,
        (select count(*) from event where event.subject = 'item/' || item.id) from item) as numbered
where seq <> events

-- name: next_jobs
select {job_columns} from job where id > :after order by id limit :limit

-- name: events_of_jobs
-- The histories of a page of jobs, one after the other.
select job.id, {event_columns} from job join event on event.subject = 'job/' || job.id
where job.id > :after and job.id <= :last order by job.id, event.seq

-- fragment: of_nobody
-- A job's history of which there is neither a row nor, for jobs in a tree elsewhere, a count.
event.subject > :after and event.subject < 'job0'
  and not exists (select 1 from subject where subject.subject = event.subject)
  and not exists (
    select 1 from job
    where job.id = case when event.subject like 'job/%' then cast(substr(event.subject, 5) as bigint) end)

-- name: histories_without_row
select event.subject from event where {of_nobody} group by event.subject order by event.subject limit :limit

-- name: events_without_row
select {event_columns} from event where {of_nobody} and event.subject <= :last order by event.subject, event.seq

-- name: items_without_row
select event.subject from event
where event.seq = 1 and event.subject > 'item/' and event.subject < 'item0'
  and not exists (select 1 from item where item.id = substr(event.subject, 6))
limit :limit

-- name: unsealed
-- Events not yet in any block: by absence, not by range, so one that committed late is never passed over.
select {event_columns} from event
where event.id > :after
  and not exists (select 1 from sealed where sealed.subject = event.subject and sealed.seq = event.seq)
order by event.id limit :limit

-- name: insert_block
insert into block (number, origin, algorithm, previous, root, count, total, at, complete, frontier, signature, last_event)
values (:number, :origin, :algorithm, :previous, :root, :count, :total, :at, :complete, :frontier, :signature, :last_event)
on conflict (number) do nothing
returning number

-- name: last_block
select {block_columns} from block order by number desc limit 1

-- name: block
select {block_columns} from block where number = :number

-- name: blocks
select {block_columns} from block where number > :after order by number limit :limit

-- name: sealed_before
-- The newest block that is old enough: no transaction that began before it is still open.
select last_event from block where at < :before order by number desc limit 1

-- name: sealed_events
-- Leaves with their events, in the order of sealing; an event that is gone leaves its place empty.
select sealed.subject, sealed.seq, sealed.block, sealed.position, sealed.body, sealed.salt, sealed.leaf, {event_columns}
from sealed left join event on event.subject = sealed.subject and event.seq = sealed.seq
where sealed.block > :block or (sealed.block = :block and sealed.position > :position)
order by sealed.block, sealed.position limit :limit

-- name: unsealed_in_order
select {event_columns} from event
where (event.subject > :subject or (event.subject = :subject and event.seq > :seq))
  and not exists (select 1 from sealed where sealed.subject = event.subject and sealed.seq = event.seq)
order by event.subject, event.seq limit :limit

-- name: leaf
select subject, seq, block, position, body, salt, leaf from sealed where subject = :subject and seq = :seq

-- name: leaves_of_block
select leaf from sealed where block = :block order by position

-- name: erase_body
update event set agent = '', detail = '{}' where subject = :subject and seq = :seq returning id

-- name: erase_salt
update sealed set salt = null where subject = :subject and seq = :seq

-- name: list_jobs
-- Jobs that match, by id. An empty parameter matches everything.
select {job_columns} from job
where id > :after
  and (:kind = '' or kind = :kind) and (:prefix = '' or (kind >= :prefix and kind < :prefix_end))
  and (:state = '' or state = :state) and (:ended = '' or ended = :ended) and (:lane = '' or lane = :lane)
  and (:collection = '' or collection = :collection) and (:code = '' or code = :code)
  and (:parent = 0 or parent = :parent)
order by id limit :limit

-- fragment: grant_columns
id, subject, what, value, by, why, at, ended

-- name: grant
-- Nothing is granted twice at a time.
insert into granted (subject, what, value, by, why, at)
values (:subject, :what, :value, :by, :why, :now)
on conflict (subject, what, value) where ended is null do nothing
returning {grant_columns}

-- name: granted
select {grant_columns} from granted
where subject = :subject and what = :what and value = :value and ended is null

-- name: withdraw
update granted set ended = :now
where subject = :subject and what = :what and value = :value and ended is null
returning id

-- name: grants_of
select {grant_columns} from granted where subject = :subject and ended is null order by what, value

-- name: grants
select {grant_columns} from granted order by subject, what, value, id
