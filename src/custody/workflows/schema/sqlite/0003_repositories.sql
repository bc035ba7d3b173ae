-- was: 0014
-- What names a git repository, and the count of its updates: no longer in a folder that its owner can write to.
-- What earlier versions left there is taken over when the repository is next looked at.

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
