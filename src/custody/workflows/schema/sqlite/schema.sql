-- What workflows keep in SQLite, as it is now. Migrations build the same; a test compares the two.

create table archive (
    name text primary key,
    system text not null,                       -- svn, git
    location text not null,
    uuid text not null,
    last integer not null,                      -- revisions up to this one have a commit job
    frozen text not null,                       -- why nothing is taken in any more; empty: all is well
    added integer not null
) strict, without rowid;

create table git_repository (
    uuid text primary key,
    location text not null,
    at integer not null
) strict, without rowid;

create table git_update (
    repository text not null,
    seq integer not null,
    number integer not null,                    -- of the revision; 0: a branch was deleted
    ref text not null,
    old text not null,
    new text not null,
    primary key (repository, seq)
) strict, without rowid;

-- The newest runs that people and schedules asked for, of one archive.
create index job_runs on job (lane, id) where kind = 'workflow/run';
