-- was: 0002
-- What ingest has recorded: objects, their versions and files, and whose local names they go by.

create table inv_object (
    ark text primary key,
    owner text not null,
    collection text not null,
    node text not null,
    title text not null,
    creator text not null,
    date text not null,
    version integer not null,
    created integer not null,
    changed integer not null
) strict, without rowid;
create index inv_object_collection on inv_object (collection, ark);

-- A local id is reserved when its identifier is minted, so two jobs can never mint for one name.
create table inv_local (
    owner text not null,
    local_id text not null,
    ark text not null,
    primary key (owner, local_id)
) strict, without rowid;
create index inv_local_ark on inv_local (ark);

create table inv_version (
    ark text not null,
    version integer not null,
    job integer not null,
    batch integer not null,
    files integer not null,
    bytes integer not null,
    recorded integer not null,
    primary key (ark, version)
) strict, without rowid;

create table inv_file (
    ark text not null,
    version integer not null,
    name text not null,
    sha256 text not null,
    size integer not null,
    mime text not null,
    primary key (ark, version, name)
) strict, without rowid;
create index inv_file_digest on inv_file (sha256);
