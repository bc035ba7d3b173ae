-- was: 0019
-- Every identifier that a deposit goes by, from the moment it has it: one name, one object, one collection. What is
-- recorded, reserved for a local id or kept by a job under way is in it from the beginning.

create table inv_name (
    ark text collate "C" primary key,
    collection text collate "C" not null,       -- '': it was reserved for a local id, and its job is gone
    request text collate "C" not null,          -- of the job that had it first
    minted bigint not null,                     -- 1: given out here; 0: brought along
    writer text collate "C" not null,           -- of the job that stores its first version
    at bigint not null
);

insert into inv_name (ark, collection, request, minted, writer, at)
select ark, collection, '', 1, '', created from inv_object;

insert into inv_name (ark, collection, request, minted, writer, at)
select kept.ark, kept.collection, kept.request, kept.minted, '', kept.created
from (
    select case when kind = 'ingest/job' then cast(facts as json) ->> 'primary' end as ark, collection,
        'job-' || id || '-' || created as request,
        case when kind = 'ingest/job' and coalesce(cast(payload as json) ->> 'primary_id', '') <> '' then 0 else 1 end
            as minted,
        created
    from job) as kept
where coalesce(kept.ark, '') <> ''
on conflict (ark) do nothing;

insert into inv_name (ark, collection, request, minted, writer, at)
select distinct ark, '', '', 1, '', 0 from inv_local
on conflict (ark) do nothing
