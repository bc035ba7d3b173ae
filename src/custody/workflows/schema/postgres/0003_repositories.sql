-- was: 0014
-- What names a git repository, and the count of its updates: no longer in a folder that its owner can write to.
-- What earlier versions left there is taken over when the repository is next looked at.

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
