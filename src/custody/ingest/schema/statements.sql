-- The inventory's statements, in the dialect that SQLite and PostgreSQL share.

-- name: inv_ark_of
select ark from inv_local where owner = :owner and local_id = :local_id

-- name: inv_reserve
-- One name, one object: whoever comes second is told whose it is.
insert into inv_local (owner, local_id, ark) values (:owner, :local_id, :ark)
on conflict (owner, local_id) do nothing

-- name: inv_name
select collection, request, minted, writer from inv_name where ark = :ark

-- name: inv_take
-- One name, one object: of all who come with it, whoever is first has it.
insert into inv_name (ark, collection, request, minted, writer, at)
values (:ark, :collection, :request, :minted, '', :now)
on conflict (ark) do nothing

-- name: inv_take_over
-- From a job that brought it along and came to nothing; not from one that has begun to store it.
update inv_name set collection = :collection, request = :request
where ark = :ark and request = :before and minted = 0 and writer = ''

-- name: inv_settle_in
-- A name that was reserved before collections were written down belongs to the first that uses it.
update inv_name set collection = :collection where ark = :ark and collection = ''

-- name: inv_begin
-- One job at a time makes the first version of an object.
update inv_name set writer = :request where ark = :ark and writer = :before and collection = :collection

-- name: seed
insert into counter (name, value) values (:name, :value) on conflict (name) do nothing

-- name: inv_put_object
-- Recording the same version again changes nothing but what is already so.
insert into inv_object (ark, owner, collection, node, title, creator, date, version, created, changed)
values (:ark, :owner, :collection, :node, :title, :creator, :date, :version, :now, :now)
on conflict (ark) do update
set title = excluded.title, creator = excluded.creator, date = excluded.date, node = excluded.node,
    version = excluded.version, changed = excluded.changed
where inv_object.version <= excluded.version

-- name: inv_put_version
insert into inv_version (ark, version, job, batch, files, bytes, recorded)
values (:ark, :version, :job, :batch, :files, :bytes, :now)
on conflict (ark, version) do nothing
returning version

-- name: inv_put_file
insert into inv_file (ark, version, name, sha256, size, mime) values (:ark, :version, :name, :digest, :size, :mime)
on conflict (ark, version, name) do nothing

-- name: inv_object
select ark, owner, collection, node, title, creator, date, version, created, changed from inv_object where ark = :ark

-- name: inv_objects
select ark, owner, collection, node, title, creator, date, version, created, changed from inv_object
where ark > :after and (:collection = '' or collection = :collection) order by ark limit :limit

-- name: inv_local_ids
select local_id from inv_local where ark = :ark order by local_id

-- name: inv_versions
select version, job, batch, files, bytes, recorded from inv_version where ark = :ark order by version

-- name: inv_files
select name, sha256, size, mime from inv_file where ark = :ark and version = :version and name > :after
order by name limit :limit

-- name: inv_is_named
-- Whether a deposit goes by this name.
select 1 from inv_name where ark = :name

-- name: web_owners
select distinct owner from inv_local
