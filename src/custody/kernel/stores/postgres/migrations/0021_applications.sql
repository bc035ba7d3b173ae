-- Each application has a line of migrations of its own from now on: how far it has come is here, the kernel's own stays
-- in schema_version. And what names were kept as they were spelled is asked of every item: a table of the kernel's.

create table application_version (
    application text collate "C" not null,
    version integer not null,
    applied bigint not null,
    primary key (application, version)
);

create table spelling (
    owner text collate "C" not null,            -- of a local id, '': an item or a name
    spelled text collate "C" not null,
    normal text collate "C" not null,           -- empty until the program has looked
    primary key (owner, spelled)
);
create index spelling_normal on spelling (owner, normal);
