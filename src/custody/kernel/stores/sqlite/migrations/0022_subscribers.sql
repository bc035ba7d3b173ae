-- Who waits for news of items is a kind of job, whichever application has it. And whether a job's key is the only one of
-- its kind everywhere, or in its collection, is said by whoever makes the job: it was read off the kind.

create table subscriber (
    kind text primary key,
    trigger text not null,
    facts text not null,
    filled text not null default '',
    priority_from text not null default ''
) strict, without rowid;

alter table job add column everywhere integer not null default 0;
drop index job_key;
create unique index job_key on job (kind, key, (case when everywhere = 1 then '' else collection end))
    where key is not null;
