-- Where an item is becomes a column that robots cannot write. The folders told before wait in `unplaced` until the roots
-- of the installation are known: those below one become places, the others are told by `custody doctor`. A NUL in a text, which PostgreSQL does
-- not read in JSON, becomes U+FFFD in these items.

alter table item add column place text not null default '';
create table unplaced (                         -- folders told before items had a place, below no root that is named yet
    item text collate "C" primary key,
    folder text not null
);

insert into unplaced (item, folder)
select id, told ->> 'folder' from (
    select id, replace(detail, '\u0000', '\ufffd')::json as told from item where detail like '%"folder"%') as known
where json_typeof(told -> 'folder') = 'string' and told ->> 'folder' <> '';

update item set detail = coalesce(
    (select json_object_agg(key, value)::text from json_each(replace(detail, '\u0000', '\ufffd')::json)
     where key <> 'folder'), '{}')
where detail like '%"folder"%' and json_typeof(replace(detail, '\u0000', '\ufffd')::json -> 'folder') is not null;
