-- What workflows keep in PostgreSQL, as it is now. Migrations build the same; a test compares the two.

create table archive (
    name text collate "C" primary key,
    system text not null,                       -- svn, git
    location text not null,
    uuid text not null,
    last bigint not null,                      -- revisions up to this one have a commit job
    frozen text not null,                       -- why nothing is taken in any more; empty: all is well
    added bigint not null
);

create table git_repository (
    uuid text collate "C" primary key,
    location text collate "C" not null,
    at bigint not null
);

create table git_update (
    repository text collate "C" not null,
    seq bigint not null,
    number bigint not null,                    -- of the revision; 0: a branch was deleted
    ref text collate "C" not null,
    old text collate "C" not null,
    new text collate "C" not null,
    primary key (repository, seq)
);

-- The newest runs that people and schedules asked for, of one archive.
create index job_runs on job (lane, id) where kind = 'workflow/run';
