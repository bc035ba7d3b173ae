-- Which secrets the tasks of an archive may have. Their values are never here.

create table archive_secret (
    archive text not null,
    secret text not null,
    branch text not null,                       -- a pattern; * for all
    who text not null,
    why text not null,
    at integer not null,
    primary key (archive, secret, branch)
) strict, without rowid;
