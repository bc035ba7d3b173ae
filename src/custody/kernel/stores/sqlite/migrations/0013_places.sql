-- Where an item is becomes a column that robots cannot write. The folders told before wait in `unplaced` until the roots
-- of the installation are known: those below one become places, the others are told by `custody doctor`.

alter table item add column place text not null default '';
create table unplaced (                         -- folders told before items had a place, below no root that is named yet
    item text primary key,
    folder text not null
) strict, without rowid;

insert into unplaced (item, folder)
select id, detail ->> '$.folder' from item
where detail like '%"folder"%' and json_type(detail, '$.folder') = 'text' and detail ->> '$.folder' <> '';

update item set detail = json_remove(detail, '$.folder')
where detail like '%"folder"%' and json_type(detail, '$.folder') is not null;
