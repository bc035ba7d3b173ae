-- was: 0004
-- Archives whose commits run workflows: which revisions have been taken in, and whether something is amiss.

create table archive (
    name text collate "C" primary key,
    system text not null,                       -- svn, git
    location text not null,
    uuid text not null,
    last bigint not null,                      -- revisions up to this one have a commit job
    frozen text not null,                       -- why nothing is taken in any more; empty: all is well
    added bigint not null
);
