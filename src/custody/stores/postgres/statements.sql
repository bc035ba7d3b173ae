-- What PostgreSQL says differently, each with its reason. Everything else is the common text.
-- (In a look that writes nothing, a closing "for update" or "for share" is left out: see texts.py.)

-- name: claim
-- Many claim at once: each skips the rows that another is just taking. The choice is fenced off in a
-- materialised CTE, because a planner that joins it the other way round would run it more than once and take
-- more than the limit; and it locks in the order of the queue, which all claims share.
with chosen as materialized (
    select job.id from job
    where {ready} and queue = :queue and {kind_open} and {lane_open}
    order by priority, id
    limit :limit
    for update of job skip locked)
update job
set holder = :holder, until = :now + :lease, token = token + 1, move = :move,
    attempts = attempts + 1, suspect = 0
from chosen where job.id = chosen.id
returning {job_columns}

-- name: expired
-- Two workers that look for the lost at once find different ones.
select id, queue from job where {expired} limit :limit for update skip locked

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
select id, types, collection, seq, changed, fingerprint, detail from item where id = :id for update

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
select name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot
from schedule where paused = 0 and next_slot <= :now order by next_slot limit 100 for update skip locked

-- name: check_lease
-- What relies on the lease commits before the lease can pass on.
select 1 from lease where name = :name and token = :token and until > :now for share
