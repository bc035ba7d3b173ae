-- The statements of the workflows application, in the dialect that SQLite and PostgreSQL share.

-- name: wf_add_archive
insert into archive (name, system, location, uuid, last, frozen, added)
values (:name, :system, :location, :uuid, :last, '', :now)
on conflict (name) do nothing
returning name

-- name: wf_archives
select name, system, location, uuid, last, frozen from archive order by name

-- name: wf_archive
select name, system, location, uuid, last, frozen from archive where name = :name

-- name: wf_lock_archive
-- Takes the archive's row, so that notices that come at once are taken in one after the other.
update archive set last = last where name = :name
returning name, system, location, uuid, last, frozen

-- name: wf_advance
update archive set last = :last where name = :name and last < :last

-- name: wf_go_back
update archive set last = :last where name = :name

-- name: wf_hurry
-- Whatever of an archive waits for its time need not any more.
update job set due = :now where line in (:line, :runs) and ended is null and due > :now

-- name: wf_freeze
update archive set frozen = :frozen, uuid = :uuid where name = :name

-- name: wf_drop_archive
delete from archive where name = :name returning name

-- name: wf_last_word
-- The newest that was noted about an archive.
select type, detail from event where subject = :subject order by seq desc limit 1

-- name: wf_added_before
-- How an archive of this name was added last time, if any of its revisions was taken in.
select detail from event where subject = :subject and type = 'added'
  and exists (select 1 from job where line = :line)
order by seq desc limit 1

-- name: wf_nearest
-- For each of these tasks, the newest earlier revision that has it and its job there, on an archive with one line of
-- revisions; and what the commit before has to say about its blocking tasks.
select one.value, job.position, job.id, case when job.kind = :commit then job.facts end
from json_each(:tasks) as one join job on job.id = (
    select id from job as older where line = :line and task = one.value and position < :position
    order by position desc limit 1)

-- name: wf_by_keys
-- The jobs of these kinds and keys, as far as there are any.
select job.kind, job.key, job.id from json_each(:names) as one
join job on job.kind = one.value ->> 0 and job.key = one.value ->> 1

-- name: wf_has
select 1 from job where line = :line and task = :task and position = :position limit 1

-- name: wf_of_line
-- The jobs of the last revisions of an archive, for its grid.
select {job_columns} from job where line = :line and position >= :first and position <= :last order by position, id

-- name: wf_lanes
-- Where the unfinished jobs of an archive stand.
select distinct lane from job where collection = :collection and ended is null

-- name: wf_unfinished
-- What the tasks of an archive, or of its runs, that have not ended were given, oldest first, after those that are known.
select id, payload from job
where line = :line and ended is null and task <> 'COMMIT' and id > :after order by id limit :most

-- name: wf_gone
-- Revisions of an archive whose commit was cleared away before it was planned, as lately as this.
select position, facts from job
where line = :line and task = 'COMMIT' and ended = 'passed' and changed > :since and facts like '%"gone":%'
order by position desc limit 20

-- name: wf_stuck
-- The first revision of an archive that holds up all after it: its commit failed, or its repository is damaged.
select {job_columns} from job
where line = :line and task = 'COMMIT'
  and (ended in ('failed', 'cancelled') or (ended is null and facts like '%"corrupt":%'))
order by position limit 1

-- name: wf_older
select {job_columns} from job
where line = :line and task = :task and position < :position and ended is null
order by id

-- name: wf_last_run
-- The last run of a task before this one, among those that people and schedules asked for.
select id from job where line = :line and task = :task and position < :position order by position desc limit 1

-- name: wf_edges_of_line
select edge.job, edge.target from edge join job on job.id = edge.job
where job.line = :line and job.position >= :first and job.position <= :last order by edge.job, edge.target

-- name: wf_instances
-- A task in the revisions before this one, newest first.
select id, ended, created, changed from job
where line = :line and task = :task and position < :position order by position desc limit :limit

-- name: wf_runs
-- The newest runs that people and schedules asked for. The kind is spelt out, as it is in the index that answers this.
select {job_columns} from job where kind = 'workflow/run' and lane = :lane and id < :before
order by id desc limit :limit

-- name: wf_repositories
-- Every git repository that was ever looked after.
select uuid, location from git_repository order by at, uuid

-- name: wf_add_repository
insert into git_repository (uuid, location, at) values (:uuid, :location, :now) on conflict (uuid) do nothing
returning uuid

-- name: wf_move_repository
update git_repository set location = :location, at = :now where uuid = :uuid

-- name: wf_updates
-- What was counted after those that are known.
select seq, number, ref, old, new from git_update where repository = :repository and seq > :after order by seq

-- name: wf_keep_limit
-- What the configuration says, for those who have none.
insert into counter (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value

-- name: wf_add_update
-- Nothing if somebody else has this place already: then whoever counts looks again.
insert into git_update (repository, seq, number, ref, old, new) values (:repository, :seq, :number, :ref, :old, :new)
on conflict (repository, seq) do nothing
returning seq
