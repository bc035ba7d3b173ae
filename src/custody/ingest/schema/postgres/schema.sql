-- What ingest keeps in PostgreSQL, as it is now. Migrations build the same; a test compares the two.

create table inv_object (
    ark text collate "C" primary key,
    owner text collate "C" not null,
    collection text collate "C" not null,
    node text collate "C" not null,
    title text collate "C" not null,
    creator text collate "C" not null,
    date text collate "C" not null,
    version bigint not null,
    created bigint not null,
    changed bigint not null
);
create index inv_object_collection on inv_object (collection, ark);

-- A local id is reserved when its identifier is minted, so two jobs can never mint for one name.
create table inv_local (
    owner text collate "C" not null,
    local_id text collate "C" not null,
    ark text collate "C" not null,
    primary key (owner, local_id)
);
create index inv_local_ark on inv_local (ark);

-- Every identifier that a deposit goes by, from the moment it has it: one name, one object, one collection.
create table inv_name (
    ark text collate "C" primary key,
    collection text collate "C" not null,       -- '': it was reserved for a local id, and its job is gone
    request text collate "C" not null,          -- of the job that had it first
    minted bigint not null,                     -- 1: given out here; 0: brought along
    writer text collate "C" not null,           -- of the job that stores its first version
    at bigint not null
);

create table inv_version (
    ark text collate "C" not null,
    version bigint not null,
    job bigint not null,
    batch bigint not null,
    files bigint not null,
    bytes bigint not null,
    recorded bigint not null,
    primary key (ark, version)
);

create table inv_file (
    ark text collate "C" not null,
    version bigint not null,
    name text collate "C" not null,
    sha256 text collate "C" not null,
    size bigint not null,
    mime text collate "C" not null,
    primary key (ark, version, name)
);
create index inv_file_digest on inv_file (sha256);
