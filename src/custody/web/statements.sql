-- What the dashboard and its tokens ask of the store, in the dialect that SQLite and PostgreSQL share.
-- Lists never count and never skip: each is a few ordered walks down an index, merged, and stopped after a page.

-- fragment: web_scope
-- Only what the caller may see: all collections, or those between spaces.
(:scope = '*' or replace(:scope, ' ' || job.collection || ' ', '') <> :scope)

-- fragment: web_rest
-- What no index helps with; empty matches everything.
{web_scope} and (:collection = '' or job.collection = :collection) and (:lane = '' or job.lane = :lane)
and (:code = '' or job.code = :code)

-- name: web_kinds
-- The kinds of job there are: one step down the index for each.
with recursive step (kind) as (
    select min(kind) from job
    union all
    select (select min(job.kind) from job where job.kind > step.kind) from step where step.kind is not null)
select kind from step where kind is not null

-- name: web_states
-- The states that jobs of a kind are in, the same way.
with recursive step (state) as (
    select min(state) from job where kind = :kind
    union all
    select (select min(job.state) from job where job.kind = :kind and job.state > step.state)
    from step where step.state is not null)
select state from step where state is not null

-- name: web_jobs
-- The newest jobs of all kinds.
select {job_columns} from job where id < :before and {web_rest} order by id desc limit :limit

-- name: web_jobs_at
-- The newest jobs of a kind in a state.
select {job_columns} from job
where kind = :kind and state = :state and id < :before and {web_rest}
order by id desc limit :limit

-- name: web_jobs_failed_as
-- The newest failed jobs of a kind with one code.
select {job_columns} from job
where ended = 'failed' and kind = :kind and code = :code and id < :before and {web_scope}
  and (:collection = '' or job.collection = :collection) and (:lane = '' or job.lane = :lane)
  and (:state = '' or job.state = :state)
order by id desc limit :limit

-- name: web_children_open
-- The children of a job that have not ended, in the order of the depositor's rows.
select {job_columns} from job
where parent = :parent and ended is null and id > :after and {web_rest} and (:state = '' or job.state = :state)
order by id limit :limit

-- name: web_children_ended
select {job_columns} from job
where parent = :parent and ended = :ended and id > :after and {web_rest} and (:state = '' or job.state = :state)
order by id limit :limit

-- name: web_failed_children
-- A batch's failures by cause.
select code, count(*), min(id) from job where parent = :parent and ended = 'failed' group by code order by count(*) desc, code

-- name: web_child_progress
-- How a parent's children stand: those with a holder are being worked on.
select state, ended, holder is not null, count(*) from job where parent = :parent group by state, ended, holder is not null

-- name: web_child_ends
-- The same in brief, for a list of many parents: read from the index alone.
select ended, count(*) from job where parent = :parent group by ended

-- name: web_open_children
-- A look at some of those that have not ended.
select state, holder is not null from job where parent = :parent and ended is null limit :limit

-- name: web_first_at
-- The job that came first of those in a state, unless it is being worked on.
select {job_columns} from job where kind = :kind and state = :state and {unleased} order by id limit 1

-- name: web_oldest_ready
-- Since when the one that waits longest could have been claimed, of the first thousand that will be.
select min(changed), count(*) from (
    select job.changed from job
    where {ready} and queue >= :prefix and queue < :prefix_end
    order by queue, priority, id limit 1000) as first

-- name: web_ended_since
-- When the newest jobs of a kind in a state came to it, no further back than a moment or five thousand jobs.
select changed from (
    select job.changed from job where kind = :kind and state = :state order by id desc limit 5000) as newest
where changed > :since

-- name: web_matching
-- How many jobs a filter matches, by kind and state: the dry run of a bulk action.
select kind, state, ended, count(*) from job
where (:kind = '' or kind = :kind) and (:prefix = '' or (kind >= :prefix and kind < :prefix_end))
  and (:state = '' or state = :state) and (:ended = '' or ended = :ended) and (:parent = 0 or parent = :parent)
  and {web_rest} and id <= :last
group by kind, state, ended order by kind, state

-- name: web_newest_job
select coalesce(max(id), 0) from job

-- name: web_newest_event
select coalesce(max(id), 0) from event

-- name: web_events
-- The newest events; a filter looks no further back than the last two hundred thousand.
select {event_columns} from event
where id < :before and id > :floor and (:type = '' or type = :type) and (:outcome = '' or outcome = :outcome)
  and (:agent = '' or agent = :agent) and (:prefix = '' or (subject >= :prefix and subject < :prefix_end))
order by id desc limit :limit

-- name: web_items
select id, types, collection, seq, changed, fingerprint, detail from item
where id > :after and (:scope = '*' or replace(:scope, ' ' || collection || ' ', '') <> :scope)
  and (:collection = '' or collection = :collection) and (:type = '' or replace(types, :type, '') <> types)
  and (:prefix = '' or (id >= :prefix and id < :prefix_end))
order by id limit :limit

-- name: web_leased_jobs
-- What is being worked on now, the lease that ends first going first.
select {job_columns} from job where holder is not null order by until, queue limit :limit

-- name: web_owners
select distinct owner from inv_local

-- name: insert_token
insert into token (hash, name, roles, collections, login, created, expires)
values (:hash, :name, :roles, :collections, :login, :now, :now + :lasts)
returning id, name, roles, collections, login, created, expires, revoked

-- name: token_by_hash
-- A session ends with the token it was opened with.
select token.id, token.name, token.roles, token.collections, token.login, token.created, token.expires, token.revoked
from token left join token as opener on opener.id = token.login
where token.hash = :hash and token.revoked is null and token.expires > :now
  and (token.login is null or (opener.revoked is null and opener.expires > :now))

-- name: tokens
select id, name, roles, collections, login, created, expires, revoked from token where login is null order by id

-- name: revoke_token
update token set revoked = :now where id = :id and revoked is null returning id, name

-- name: forget_tokens
-- Sessions that are over; other tokens stay, as the history names them.
delete from token where login is not null and (expires <= :now or revoked is not null)
