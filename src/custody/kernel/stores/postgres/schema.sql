-- The PostgreSQL schema of the kernel as it is now. Migrations build the same; a test compares the two.
-- Times are microseconds since 1970 (UTC), as integers. JSON is text, because nothing here looks inside it.
-- Text that is sorted or compared by range is in the "C" collation: the order of the code points, the same on
-- every server and the same as SQLite's, and the cheapest to compare.

create table schema_version (version integer not null primary key, applied bigint not null);

-- How far the line of each application has come.
create table application_version (
    application text collate "C" not null,
    version integer not null,
    applied bigint not null,
    primary key (application, version)
);

create table job (
    id bigint generated always as identity primary key with (fillfactor = 50),      -- never given twice
    kind text collate "C" not null,
    key text collate "C",                       -- unique within kind and collection
    state text collate "C" not null,
    runnable smallint not null,                 -- 1: a worker has something to do in this state
    ended text collate "C",                     -- passed, failed, cancelled, superseded, skipped
    lane text collate "C" not null,
    place text collate "C" not null,
    collection text collate "C" not null,
    priority smallint not null,                 -- low first
    unmet integer not null,                     -- needs not yet met, a future `due` among them
    due bigint,                                 -- not before this, while that is still ahead
    payload text not null,
    facts text not null,
    attempts integer not null default 0,
    crashes integer not null default 0,
    retries integer not null default 0,
    last_passed text,
    parent bigint,
    open integer not null default 0,            -- children that have not ended
    when_empty text,                            -- where to go when the last of them has
    line text collate "C",
    task text collate "C",
    position bigint not null default 0,
    supersedes smallint not null default 0,     -- 1: will supersede older instances when ready; 2: has done so
    token bigint not null default 0,            -- rises at every claim and every move
    seq bigint not null default 0,              -- events written so far
    move text collate "C" not null default '',  -- id of the last move or claim
    holder text collate "C",
    until bigint not null default 0,            -- in no index, so that a renewal stays within its page
    suspect smallint not null default 0,        -- if its lease ends without a word: see kernel/model/suspicion.py
    revoked text,                               -- cancel or supersede, until its holder confirms the end
    code text collate "C",                      -- why it failed, as a code
    created bigint not null,
    changed bigint not null,
    queue text collate "C" not null
        generated always as (kind || '|' || state || '|' || place || '|' || lane) stored,
    by text collate "C" not null,                -- who asked for it: written once, by a program that knows
    everywhere smallint not null default 0       -- 1: its key is the only one of its kind in all collections
) with (
    -- Room on each page for the versions a claim and a settle leave behind, and vacuum before they pile up:
    -- dead entries at the front of the ready index are what slows a queue down.
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);

create unique index job_key on job (kind, key, (case when everywhere = 1 then '' else collection end))
    where key is not null;
-- Exactly what can be claimed now. Cost per claim does not depend on anything else in the table.
create index job_ready on job (queue, priority, id) where runnable = 1 and unmet = 0 and holder is null;
create index job_leased on job (queue, id) where holder is not null;
create index job_due on job (due) where due is not null;
create index job_parent on job (parent, ended, id) where parent is not null;
create index job_line on job (line, task, position) where line is not null;
-- Half empty, as the primary key is: a claim and a settle each add an entry for the same id, and a full page
-- would be searched for dead ones, or split, at every turn (measured: a tenth of the server's work).
create index job_listed on job (kind, state, id) with (fillfactor = 50);
create index job_failed on job (kind, code, id) where ended = 'failed';
create index job_collection on job (collection, id) where collection <> '';

create table edge (
    job bigint not null,
    target bigint not null,
    wants text collate "C" not null,            -- success, finished, failure, passable
    otherwise text collate "C" not null,        -- wait, skip
    met smallint not null,
    primary key (job, target)
) with (fillfactor = 80);
create index edge_target on edge (target, job);

-- Which ends satisfy which want: kernel/model/graph.py, as a table the settle statement can join.
create table satisfies (
    wants text collate "C" not null,
    ended text collate "C" not null,
    primary key (wants, ended)
);

create table event (
    id bigint generated always as identity primary key,
    subject text collate "C" not null,
    seq bigint not null,
    type text collate "C" not null,
    outcome text collate "C" not null,
    agent text not null,
    at bigint not null,
    detail text not null,
    token bigint not null default 0,
    move text collate "C" not null default ''
);
create unique index event_subject on event (subject, seq);

create table sealed (
    subject text collate "C" not null,
    seq bigint not null,
    block bigint not null,
    position bigint not null,                  -- within the block, from 0
    body text not null,                         -- hash of salt and body
    salt text,                                  -- gone once the body was erased
    leaf text not null,
    primary key (subject, seq)
);
create index sealed_block on sealed (block, position);

create table block (
    number bigint primary key,                 -- of two sealers one wins
    origin text not null,
    algorithm text not null,
    previous text not null,
    root text not null,
    count bigint not null,
    total bigint not null,
    at bigint not null,
    complete bigint not null,
    frontier text not null,
    signature text not null,
    last_event bigint not null                 -- the highest event.id in it: where to look for unsealed ones
);

create table lease (
    name text collate "C" primary key,
    holder text collate "C",
    token bigint not null,
    until bigint not null,
    since bigint not null
) with (fillfactor = 50);

create table hold (
    scope text collate "C" not null,            -- collection, batch, kind, lane
    name text collate "C" not null,
    who text not null,
    why text not null,
    since bigint not null,
    primary key (scope, name)
);

-- Sequences of subjects that have no row of their own: holds, schedules, the store itself.
create table subject (
    subject text collate "C" primary key,
    seq bigint not null
) with (fillfactor = 50);

create table schedule (
    name text collate "C" primary key,
    spec text not null,                         -- cron expression, or "every 5m"
    zone text not null,
    kind text collate "C" not null,
    payload text not null,
    lane text collate "C" not null,
    overlap text not null,                      -- skip, allow
    missed text not null,                       -- once, skip
    paused smallint not null default 0,
    last_slot bigint not null,
    next_slot bigint not null,
    by text not null,                           -- who set or adopted it last
    why text not null default ''                -- why it was paused by itself
);
create index schedule_next on schedule (next_slot) where paused = 0;

create table slot (
    schedule text collate "C" not null,
    slot bigint not null,                       -- when it was due
    job bigint,
    outcome text collate "C" not null,          -- ran, missed, skipped
    primary key (schedule, slot)
);

create table item (
    id text collate "C" primary key,
    types text collate "C" not null,            -- space-separated, sorted, with a space at either end
    collection text collate "C" not null,
    seq bigint not null,
    changed bigint not null,
    fingerprint text not null,
    detail text not null,
    created bigint not null,
    place text not null default ''              -- root:relative/path; what is told about an item cannot be it
) with (fillfactor = 80);
create index item_collection on item (collection, id);

create table unplaced (                         -- folders told before items had a place, below no root that is named yet
    item text collate "C" primary key,
    folder text not null
);

create table latest (
    item text collate "C" not null,
    type text collate "C" not null,
    seq bigint not null,
    outcome text collate "C" not null,
    seen bigint not null,                       -- the item's last change that whoever did it had seen
    primary key (item, type)
) with (fillfactor = 80);
create index latest_type on latest (type, outcome, item);

-- When an item's newest events meet the trigger, a job of this kind is made that has the item's id as key.
create table subscriber (
    kind text collate "C" primary key,
    trigger text not null,
    facts text not null,
    filled text collate "C" not null default '', -- back-filled up to this item; null-like '' is the beginning
    priority_from text not null default ''      -- the word in an item's detail that goes before facts.priority
);

-- Small numbers that many share: a generation, a minter's counter, a rate limit's next slot.
create table counter (
    name text collate "C" primary key,
    value bigint not null
) with (fillfactor = 50);

create table worker (
    id text collate "C" primary key,
    host text collate "C" not null,
    pid bigint not null,
    place text not null,
    serves text not null,
    started bigint not null,
    seen bigint not null
) with (fillfactor = 50);

insert into satisfies (wants, ended) values
    ('success', 'passed'),
    ('finished', 'passed'), ('finished', 'failed'), ('finished', 'cancelled'),
    ('finished', 'superseded'), ('finished', 'skipped'), ('finished', 'deleted'),
    ('failure', 'failed'),
    ('passable', 'passed'), ('passable', 'superseded'), ('passable', 'skipped');

create table token (
    id bigint generated always as identity primary key,
    hash text collate "C" not null,             -- SHA-256 of the secret, which is nowhere else
    name text collate "C" not null,             -- who it is: the agent in the history
    roles text collate "C" not null,            -- space-separated
    collections text collate "C" not null,      -- space-separated, or * for all
    login bigint,                               -- the token a session was opened with
    created bigint not null,
    expires bigint not null,
    revoked bigint,
    archives text collate "C" not null default '',-- those that a hook may tell of, space-separated
    identity text collate "C" not null default '',-- of whom another vouches for; else it is the token's own
    made_by text collate "C" not null default '',-- who made it
    last_used bigint,                           -- written about once a minute
    was text collate "C" not null default ''    -- a role that there is no more, until somebody narrows it
);
create unique index token_hash on token (hash);

create table handed_in (
    key text collate "C" primary key,
    batch bigint not null,                      -- 0: taken, and its batch is being made
    fingerprint text not null,                  -- of what was handed in: another thing needs another key
    at bigint not null
);

create table granted (
    id bigint generated always as identity primary key,
    subject text collate "C" not null,                     -- whose: archive/NAME
    what text collate "C" not null,                        -- network, secret, repository
    value text collate "C" not null,
    by text not null,
    why text not null,
    at bigint not null,
    ended bigint                              -- when it was withdrawn
);
create unique index granted_now on granted (subject, what, value) where ended is null;

create table open_kind (
    kind text collate "C" primary key,          -- or a prefix with * at its end
    since bigint not null,
    seen bigint not null                       -- when a worker last offered it
);

-- Identifiers that were kept as they were spelled, before they were kept in their one form; storage and history know
-- them so.
create table spelling (
    owner text collate "C" not null,            -- of a local id, '': an item or a name
    spelled text collate "C" not null,
    normal text collate "C" not null,           -- empty until the program has looked
    primary key (owner, spelled)
);
create index spelling_normal on spelling (owner, normal);
