-- Who may use the API and the dashboard.

create table token (
    id bigint generated always as identity primary key,
    hash text collate "C" not null,             -- SHA-256 of the secret, which is nowhere else
    name text collate "C" not null,             -- who it is: the agent in the history
    roles text collate "C" not null,            -- space-separated
    collections text collate "C" not null,      -- space-separated, or * for all
    login bigint,                               -- the token a session was opened with
    created bigint not null,
    expires bigint not null,
    revoked bigint
);
create unique index token_hash on token (hash)
