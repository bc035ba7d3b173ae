-- was: 0019
-- Every identifier that a deposit goes by, from the moment it has it: one name, one object, one collection. What is
-- recorded, reserved for a local id or kept by a job under way is in it from the beginning.

create table inv_name (
    ark text primary key,
    collection text not null,                   -- '': it was reserved for a local id, and its job is gone
    request text not null,                      -- of the job that had it first
    minted integer not null,                    -- 1: given out here; 0: brought along
    writer text not null,                       -- of the job that stores its first version
    at integer not null
) strict, without rowid;

insert into inv_name (ark, collection, request, minted, writer, at)
select ark, collection, '', 1, '', created from inv_object;

insert into inv_name (ark, collection, request, minted, writer, at)
select json_extract(facts, '$.primary'), collection, 'job-' || id || '-' || created,
    case when coalesce(json_extract(payload, '$.primary_id'), '') = '' then 1 else 0 end, '', created
from job where kind = 'ingest/job' and coalesce(json_extract(facts, '$.primary'), '') <> ''
on conflict (ark) do nothing;

insert into inv_name (ark, collection, request, minted, writer, at)
select ark, '', '', 1, '', 0 from inv_local where true group by ark
on conflict (ark) do nothing
