-- Deposits by the key their depositor gave them: it outlasts the batch, so that nothing is deposited twice.

create table handed_in (
    key text primary key,
    batch integer not null,                     -- 0: taken, and its batch is being made
    fingerprint text not null,                  -- of what was handed in: another thing needs another key
    at integer not null
) strict, without rowid;
