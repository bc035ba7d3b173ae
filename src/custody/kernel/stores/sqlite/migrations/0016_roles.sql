-- Roles are split, and tokens tell more. What had the role worker may submit and see what it submitted; for a hook or a scraper
-- `custody token narrow` makes the role that it needs (the doctor names them). Depositors keep what they see: all batches of their
-- collections, which is depositor+ now; new ones see their own.

alter table token add column archives text not null default '';
alter table token add column identity text not null default '';
alter table token add column made_by text not null default '';
alter table token add column last_used integer;
alter table token add column was text not null default '';
update token set was = 'worker' where ' ' || roles || ' ' like '% worker %' or ' ' || roles like '% worker@%';
update token set roles = trim(replace(replace(' ' || roles || ' ', ' worker ', ' submitter '), ' worker@', ' submitter@'));
update token set roles = trim(replace(replace(' ' || roles || ' ', ' depositor ', ' depositor+ '), ' depositor@', ' depositor+@'))
