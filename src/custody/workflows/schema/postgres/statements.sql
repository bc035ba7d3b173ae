-- What workflows ask of PostgreSQL in words of its own.

-- name: wf_nearest
-- JSON is taken apart in words of its own.
select one.task, job.position, job.id, case when job.kind = :commit then job.facts end
from json_array_elements_text(:tasks::json) as one (task) cross join lateral (
    select position, id, kind, facts from job where line = :line and task = one.task collate "C" and position < :position
    order by position desc limit 1) as job

-- name: wf_by_keys
select job.kind, job.key, job.id from json_array_elements(:names::json) as one (name)
join job on job.kind = (one.name ->> 0) collate "C" and job.key = (one.name ->> 1) collate "C"

-- name: wf_take_next
-- A notice of the next revision, as nearly all are, in one trip and one transaction: the archive goes on by one, and
-- the commit job is there with its need, its edge and its first event. Nothing is written, or locked, when the archive
-- stands elsewhere or is frozen, or when the commit job before is not to be found or has ended otherwise: then the
-- common way finds out. (That job is looked for in the statement's own snapshot. If it came into being only while we
-- waited for the archive, it is not seen, and nothing is written either.)
with known as materialized (select name, system, location, uuid, last, frozen from archive where name = :name),
prior as materialized (
    select id, ended from job
    where kind = :kind and key = :before
      and exists (select 1 from known where last = :position - 1 and frozen = '')
    for share of job),
taken as (
    update archive set last = :position from prior
    where name = :name and last = :position - 1 and frozen = '' and coalesce(ended, 'passed') = 'passed'
    returning prior.id as target, case when ended is null then 1 else 0 end as unmet),
made as (
    insert into job (kind, key, state, runnable, ended, lane, place, collection, priority, unmet, payload, facts,
        open, line, task, position, supersedes, token, seq, move, created, changed, by)
    select :kind, :key, :state, :runnable, :ended, :lane, :place, :collection, :priority, unmet, :payload, :facts,
        :open, :line, :task, :position, :supersedes, 1, 1, :move, :now, :now, :by
    from taken
    on conflict (kind, key, {key_within}) where key is not null do nothing
    returning id),
drawn as (
    insert into edge (job, target, wants, otherwise, met)
    select made.id, target, 'success', 'wait', 1 - unmet from made cross join taken
    returning 1),
told as (
    insert into event (subject, seq, type, outcome, agent, at, detail, token, move)
    select 'job/' || made.id, 1, 'submitted', 'none', :agent, :now,
        replace(:detail, '"needs":[0]', '"needs":[' || target || ']'), 1, :move
    from made cross join taken
    returning 1)
select known.*, (select count(*) from taken)
    / ((select count(*) from drawn) + (select count(*) from told) = 2 * (select count(*) from made)
        and {made_rising})::int
from known
