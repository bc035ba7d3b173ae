-- What may be asked for from outside: workers say so when they offer it, and it stays known while they are down.
create table open_kind (
    kind text collate "C" primary key,          -- or a prefix with * at its end
    since bigint not null,
    seen bigint not null                       -- when a worker last offered it
);
