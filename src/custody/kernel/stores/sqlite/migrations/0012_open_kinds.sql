-- What may be asked for from outside: workers say so when they offer it, and it stays known while they are down.
create table open_kind (
    kind text primary key,                      -- or a prefix with * at its end
    since integer not null,
    seen integer not null                       -- when a worker last offered it
) strict, without rowid;
