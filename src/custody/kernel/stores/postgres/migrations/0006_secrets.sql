-- Which secrets the tasks of an archive may have. Their values are never here.

create table archive_secret (
    archive text collate "C" not null,
    secret text collate "C" not null,
    branch text collate "C" not null,                       -- a pattern; * for all
    who text not null,
    why text not null,
    at bigint not null,
    primary key (archive, secret, branch)
);
