-- The SQLite schema of the kernel as it is now. Migrations build the same; a test compares the two.
-- Times are microseconds since 1970 (UTC), as integers. JSON is text.

create table schema_version (version integer not null primary key, applied integer not null) strict;

-- How far the line of each application has come.
create table application_version (
    application text not null,
    version integer not null,
    applied integer not null,
    primary key (application, version)
) strict, without rowid;

create table job (
    id integer primary key autoincrement,       -- never given twice
    kind text not null,
    key text,                                   -- unique within kind and collection
    state text not null,
    runnable integer not null,                  -- 1: a worker has something to do in this state
    ended text,                                 -- passed, failed, cancelled, superseded, skipped
    lane text not null,
    place text not null,
    collection text not null,
    priority integer not null,                  -- low first
    unmet integer not null,                     -- needs not yet met, a future `due` among them
    due integer,                                -- not before this, while that is still ahead
    payload text not null,
    facts text not null,
    attempts integer not null default 0,
    crashes integer not null default 0,
    retries integer not null default 0,
    last_passed text,
    parent integer,
    open integer not null default 0,            -- children that have not ended
    when_empty text,                            -- where to go when the last of them has
    line text,
    task text,
    position integer not null default 0,
    supersedes integer not null default 0,      -- 1: will supersede older instances when ready; 2: has done so
    token integer not null default 0,           -- rises at every claim and every move
    seq integer not null default 0,             -- events written so far
    move text not null default '',              -- id of the last move or claim
    holder text,
    until integer not null default 0,
    suspect integer not null default 0,         -- if its lease ends without a word: see kernel/model/suspicion.py
    revoked text,                               -- cancel or supersede, until its holder confirms the end
    code text,                                  -- why it failed, as a code
    created integer not null,
    changed integer not null,
    queue text not null generated always as (kind || '|' || state || '|' || place || '|' || lane) stored,
    by text not null default '',                -- who asked for it: written once
    everywhere integer not null default 0       -- 1: its key is the only one of its kind in all collections
) strict;

create unique index job_key on job (kind, key, (case when everywhere = 1 then '' else collection end))
    where key is not null;
-- Exactly what can be claimed now. Cost per claim does not depend on anything else in the table.
create index job_ready on job (queue, priority, id) where runnable = 1 and unmet = 0 and holder is null;
create index job_leased on job (until, queue) where holder is not null;
create index job_due on job (due) where due is not null;
create index job_parent on job (parent, ended) where parent is not null;
create index job_line on job (line, task, position) where line is not null;
create index job_listed on job (kind, state, id);
create index job_failed on job (kind, code) where ended = 'failed';
create index job_collection on job (collection, id) where collection <> '';

create table edge (
    job integer not null,
    target integer not null,
    wants text not null,                        -- success, finished, failure, passable
    otherwise text not null,                    -- wait, skip
    met integer not null,
    primary key (job, target)
) strict, without rowid;
create index edge_target on edge (target, job);

-- Which ends satisfy which want: kernel/model/graph.py, as a table the settle statement can join.
create table satisfies (wants text not null, ended text not null, primary key (wants, ended)) strict, without rowid;

create table event (
    id integer primary key autoincrement,
    subject text not null,
    seq integer not null,
    type text not null,
    outcome text not null,
    agent text not null,
    at integer not null,
    detail text not null,
    token integer not null default 0,
    move text not null default ''
) strict;
create unique index event_subject on event (subject, seq);

create table sealed (
    subject text not null,
    seq integer not null,
    block integer not null,
    position integer not null,                  -- within the block, from 0
    body text not null,                         -- hash of salt and body
    salt text,                                  -- gone once the body was erased
    leaf text not null,
    primary key (subject, seq)
) strict, without rowid;
create index sealed_block on sealed (block, position);

create table block (
    number integer primary key,                 -- of two sealers one wins
    origin text not null,
    algorithm text not null,
    previous text not null,
    root text not null,
    count integer not null,
    total integer not null,
    at integer not null,
    complete integer not null,
    frontier text not null,
    signature text not null,
    last_event integer not null                 -- the highest event.id in it: where to look for unsealed ones
) strict;

create table lease (
    name text primary key,
    holder text,
    token integer not null,
    until integer not null,
    since integer not null
) strict, without rowid;

create table hold (
    scope text not null,                        -- collection, batch, kind, lane
    name text not null,
    who text not null,
    why text not null,
    since integer not null,
    primary key (scope, name)
) strict, without rowid;

-- Sequences of subjects that have no row of their own: holds, schedules, the store itself.
create table subject (
    subject text primary key,
    seq integer not null
) strict, without rowid;

create table schedule (
    name text primary key,
    spec text not null,                         -- cron expression, or "every 5m"
    zone text not null,
    kind text not null,
    payload text not null,
    lane text not null,
    overlap text not null,                      -- skip, allow
    missed text not null,                       -- once, skip
    paused integer not null default 0,
    last_slot integer not null,
    next_slot integer not null,
    by text not null default '',                -- who set or adopted it last
    why text not null default ''                -- why it was paused by itself
) strict, without rowid;
create index schedule_next on schedule (next_slot) where paused = 0;

create table slot (
    schedule text not null,
    slot integer not null,                      -- when it was due
    job integer,
    outcome text not null,                      -- ran, missed, skipped
    primary key (schedule, slot)
) strict, without rowid;

create table item (
    id text primary key,
    types text not null,                        -- space-separated, sorted, with a space at either end
    collection text not null,
    seq integer not null,
    changed integer not null,
    fingerprint text not null,
    detail text not null,
    created integer not null,
    place text not null default ''              -- root:relative/path; what is told about an item cannot be it
) strict, without rowid;
create index item_collection on item (collection, id);

create table unplaced (                         -- folders told before items had a place, below no root that is named yet
    item text primary key,
    folder text not null
) strict, without rowid;

create table latest (
    item text not null,
    type text not null,
    seq integer not null,
    outcome text not null,
    seen integer not null,                       -- the item's last change that whoever did it had seen
    primary key (item, type)
) strict, without rowid;
create index latest_type on latest (type, outcome, item);

-- When an item's newest events meet the trigger, a job of this kind is made that has the item's id as key.
create table subscriber (
    kind text primary key,
    trigger text not null,
    facts text not null,
    filled text not null default '',             -- back-filled up to this item; null-like '' is the beginning
    priority_from text not null default ''      -- the word in an item's detail that goes before facts.priority
) strict, without rowid;

-- Small numbers that many share: a generation, a minter's counter, a rate limit's next slot.
create table counter (
    name text primary key,
    value integer not null
) strict, without rowid;

create table worker (
    id text primary key,
    host text not null,
    pid integer not null,
    place text not null,
    serves text not null,
    started integer not null,
    seen integer not null
) strict, without rowid;

insert into satisfies (wants, ended) values
    ('success', 'passed'),
    ('finished', 'passed'), ('finished', 'failed'), ('finished', 'cancelled'),
    ('finished', 'superseded'), ('finished', 'skipped'), ('finished', 'deleted'),
    ('failure', 'failed'),
    ('passable', 'passed'), ('passable', 'superseded'), ('passable', 'skipped');

create table token (
    id integer primary key autoincrement,
    hash text not null,                         -- SHA-256 of the secret, which is nowhere else
    name text not null,                         -- who it is: the agent in the history
    roles text not null,                        -- space-separated
    collections text not null,                  -- space-separated, or * for all
    login integer,                              -- the token a session was opened with
    created integer not null,
    expires integer not null,
    revoked integer,
    archives text not null default '',          -- those that a hook may tell of, space-separated
    identity text not null default '',          -- of whom another vouches for; else it is the token's own
    made_by text not null default '',           -- who made it
    last_used integer,                          -- written about once a minute
    was text not null default ''                -- a role that there is no more, until somebody narrows it
) strict;
create unique index token_hash on token (hash);

create table handed_in (
    key text primary key,
    batch integer not null,                     -- 0: taken, and its batch is being made
    fingerprint text not null,                  -- of what was handed in: another thing needs another key
    at integer not null
) strict, without rowid;

create table granted (
    id integer primary key autoincrement,
    subject text not null,                     -- whose: archive/NAME
    what text not null,                        -- network, secret, repository
    value text not null,
    by text not null,
    why text not null,
    at integer not null,
    ended integer                              -- when it was withdrawn
) strict;
create unique index granted_now on granted (subject, what, value) where ended is null;

create table open_kind (
    kind text primary key,                      -- or a prefix with * at its end
    since integer not null,
    seen integer not null                       -- when a worker last offered it
) strict, without rowid;

-- Identifiers that were kept as they were spelled, before they were kept in their one form; storage and history know
-- them so.
create table spelling (
    owner text not null,                        -- of a local id, '': an item or a name
    spelled text not null,
    normal text not null,                       -- empty until the program has looked
    primary key (owner, spelled)
) strict, without rowid;
create index spelling_normal on spelling (owner, normal);
