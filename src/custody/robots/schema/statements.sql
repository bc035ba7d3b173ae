-- What only robots ask of the store.

-- name: late_items
-- Items whose event should be there by now: what it counts from went well before then, and nothing came after it.
select began.item, event.at from latest as began
join event on event.subject = 'item/' || began.item and event.seq = began.seq
where began.type = :since and began.outcome <> 'failure' and event.at < :before and began.item > :after
  and not exists (
    select 1 from latest as done where done.item = began.item and done.type = :event
      and (done.seq > began.seq or :again = 0))
order by began.item limit :limit

-- name: failed_events
-- The newest event of a type, where it is a failure, with what it said.
select latest.item, event.seq, event.at, event.agent, event.detail from latest
join event on event.subject = 'item/' || latest.item and event.seq = latest.seq
where latest.type = :event and latest.outcome = 'failure' and latest.item > :after
order by latest.item limit :limit

-- name: stopped_items
-- Items that no robot takes.
select latest.item, event.at, event.agent, event.detail from latest
join event on event.subject = 'item/' || latest.item and event.seq = latest.seq
where latest.type = 'stopped' and latest.item > :after
order by latest.item limit :limit

-- name: count_type
-- How many items have had an event of this type.
select count(*) from latest where type = :type

-- name: items_ahead
-- How far the next so many items reach.
select count(*), max(id) from (select id from item where id > :after order by id limit :limit) as ahead

-- name: advance_filled
-- Only from where the sweep began: a trigger that was changed meanwhile is swept from the beginning.
update subscriber set filled = :filled where kind = :kind and filled = :was
