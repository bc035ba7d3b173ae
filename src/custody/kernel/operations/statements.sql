-- What the dashboard and its tokens ask of the store, in the dialect that SQLite and PostgreSQL share.
-- Lists never count and never skip: each is a few ordered walks down an index, merged, and stopped after a page.

-- fragment: web_fits
-- The whole of a filter of jobs: all collections or those between spaces, and others where only what the caller has made
-- is seen; empty matches everything.
((:scope = '*' or replace(:scope, ' ' || job.collection || ' ', '') <> :scope
  or (substr(job.by, 1, length(:own)) = :own
      and (:own_scope = '*' or replace(:own_scope, ' ' || job.collection || ' ', '') <> :own_scope)))
and (:collection = '' or job.collection = :collection) and (:lane = '' or job.lane = :lane)
and (:code = '' or job.code = :code) and (:state = '' or job.state = :state) and (:ended = '' or job.ended = :ended)
and (:kind = '' or job.kind = :kind) and (:prefix = '' or (job.kind >= :prefix and job.kind < :prefix_end)))

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

-- Walks: each goes down one index in its order, looks at so many rows and no more, and says which fit.

-- name: web_walk_all
-- The newest jobs of all kinds.
select id, {web_fits} from job where id < :start order by id desc limit :look

-- name: web_walk_state
-- The newest jobs of a kind in a state.
select id, {web_fits} from job where kind = :of_kind and state = :at_state and id < :start order by id desc limit :look

-- name: web_walk_collection
-- The newest jobs of a collection.
select id, {web_fits} from job
where collection = :within and collection <> '' and id < :start order by id desc limit :look

-- name: web_walk_failed
-- The newest failed jobs of a kind with one code.
select id, {web_fits} from job
where ended = 'failed' and kind = :of_kind and code = :as_code and id < :start order by id desc limit :look

-- name: web_walk_open
-- The children of a job that have not ended, in the order of the depositor's rows.
select id, {web_fits} from job where parent = :parent and ended is null and id > :start order by ended, id limit :look

-- name: web_walk_ended
select id, {web_fits} from job where parent = :parent and ended = :as_ended and id > :start order by id limit :look

-- name: web_some_in
-- How many jobs a collection has, as far as it matters.
select count(*) from (select 1 from job where collection = :within and collection <> '' limit :look) as first_ones

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

-- name: web_matching_state
-- How many jobs a filter matches: the dry run of a bulk action. As the walks, but to their end.
select kind, state, ended, count(*) from job
where kind = :of_kind and state = :at_state and id <= :last_job and {web_fits} group by kind, state, ended

-- name: web_matching_collection
select kind, state, ended, count(*) from job
where collection = :within and collection <> '' and id <= :last_job and {web_fits} group by kind, state, ended

-- name: web_matching_children
select kind, state, ended, count(*) from job
where parent = :parent and id <= :last_job and {web_fits} group by kind, state, ended

-- name: web_newest_job
select coalesce(max(id), 0) from job

-- name: web_newest_event
select coalesce(max(id), 0) from event

-- fragment: web_event_fits
-- An agent by its name, or by its name alone where it acted with a token.
((:type = '' or type = :type) and (:outcome = '' or outcome = :outcome)
and (:agent = '' or agent = :agent or substr(agent, 1, length(:agent) + 8) = :agent || ' (token:')
and (:first = '' or (subject >= :first and subject < :last)))

-- name: web_walk_events
-- The newest events.
select id, {web_event_fits} from event where id < :start order by id desc limit :look

-- name: web_events_of
-- The events of subjects that begin alike, if they are few.
select id, {web_event_fits} from event
where subject >= :first and subject < :last order by subject, seq limit :look

-- fragment: web_item_fits
(:type = '' or replace(types, :type, '') <> types)

-- name: web_walk_items
select id, {web_item_fits} from item
where id > :start and id >= :first and id < :last order by id limit :look

-- name: web_walk_items_in
select id, {web_item_fits} from item
where collection = :within and id > :start and id >= :first and id < :last order by id limit :look

-- name: web_leased_jobs
-- What is being worked on now, the lease that ends first going first.
select {job_columns} from job where holder is not null order by until, queue limit :limit

-- fragment: token_columns
token.id, token.name, token.roles, token.collections, token.archives, token.identity, token.login, token.made_by,
token.created, token.expires, token.last_used, token.revoked, token.was

-- name: insert_token
insert into token (hash, name, roles, collections, archives, identity, login, made_by, created, expires)
values (:hash, :name, :roles, :collections, :archives, :identity, :login, :made_by, :now, :now + :lasts)
returning {token_columns}

-- name: token_by_hash
-- A session ends with the token it was opened with.
select {token_columns} from token left join token as opener on opener.id = token.login
where token.hash = :hash and token.revoked is null and token.expires > :now
  and (token.login is null or (opener.revoked is null and opener.expires > :now))

-- name: token_of
-- Who somebody is now, while they are let in at all: the token itself, or the last word of whoever vouched for them.
select {token_columns} from token
where (id = :id or (identity <> '' and identity = :identity and login is null)) and revoked is null and expires > :now
order by id desc limit 1

-- name: last_login
select {token_columns} from token where identity = :identity and identity <> '' and login is null order by id desc limit 1

-- name: tokens
select {token_columns} from token where login is null order by id

-- name: token_used
-- A session's use is its token's, too. Several processes may have seen it: the youngest counts.
update token set last_used = :now
where (id = :id or id = (select login from token as session where session.id = :id))
  and coalesce(last_used, 0) < :now

-- name: narrow_token
update token set roles = :roles, collections = :collections, archives = :archives, was = ''
where id = :id and revoked is null
returning {token_columns}

-- name: end_sessions
update token set revoked = :now where login = :id and revoked is null

-- name: revoke_token
update token set revoked = :now where id = :id and revoked is null returning id, name

-- name: forget_tokens
-- Sessions that are over; other tokens stay, as the history names them.
delete from token where login is not null and (expires <= :now or revoked is not null)
