-- Each application has a line of migrations of its own from now on: how far it has come is here, the kernel's own stays
-- in schema_version. And what names were kept as they were spelled is asked of every item: a table of the kernel's.

create table application_version (
    application text not null,
    version integer not null,
    applied integer not null,
    primary key (application, version)
) strict, without rowid;

create table spelling (
    owner text not null,                        -- of a local id, '': an item or a name
    spelled text not null,
    normal text not null,                       -- empty until the program has looked
    primary key (owner, spelled)
) strict, without rowid;
create index spelling_normal on spelling (owner, normal);
