-- was: 0020
-- Identifiers are kept in their one form from now on (model/identifiers.py). Those that were kept as they were spelled
-- stay as they are: storage and history know them so. Here is whatever may be such a one, `normal` is empty until the
-- program has looked: SQL is not asked what a scheme says.

create table former_spelling (
    owner text not null,          -- of a local id, '': an item or a name
    spelled text not null,
    normal text not null,
    primary key (owner, spelled)
) strict, without rowid;
create index former_spelling_normal on former_spelling (owner, normal);

insert into former_spelling (owner, spelled, normal)
select '', ark, '' from inv_name
where ark like '%-%' or ark like '%.%' or ark like '%//%' or ark like '%/'
on conflict (owner, spelled) do nothing;

insert into former_spelling (owner, spelled, normal)
select '', id, '' from item
where lower(id) like 'ark:%' and (lower(id) <> id or id not like 'ark:/%' or id like '%-%' or id like '%.%'
        or id like '%//%' or id like '%/' or id like '%?%' or replace(id, '%', '') <> id)
    or lower(id) like 'doi:%' or lower(id) like 'hdl:%' or lower(id) like 'urn:%'
    or lower(id) like 'http:%' or lower(id) like 'https:%'
on conflict (owner, spelled) do nothing;

insert into former_spelling (owner, spelled, normal)
select owner, local_id, '' from inv_local
where lower(local_id) like 'ark:%' or lower(local_id) like 'doi:%' or lower(local_id) like 'hdl:%'
    or lower(local_id) like 'urn:%' or lower(local_id) like 'http:%' or lower(local_id) like 'https:%'
on conflict (owner, spelled) do nothing
