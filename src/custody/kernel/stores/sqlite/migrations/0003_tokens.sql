-- Who may use the API and the dashboard.

create table token (
    id integer primary key autoincrement,
    hash text not null,                         -- SHA-256 of the secret, which is nowhere else
    name text not null,                         -- who it is: the agent in the history
    roles text not null,                        -- space-separated
    collections text not null,                  -- space-separated, or * for all
    login integer,                              -- the token a session was opened with
    created integer not null,
    expires integer not null,
    revoked integer
) strict;
create unique index token_hash on token (hash)
