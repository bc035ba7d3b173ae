-- Robots are subscribers as others may be. Triggers and facts are taken over to the byte: a robot whose texts differ from
-- what it says of itself would be filled again with every item there is.

insert into subscriber (kind, trigger, facts, filled, priority_from)
select 'robot/' || robot, trigger, facts, filled, 'robot_priority' from subscription;
drop table subscription;

-- One job per robot and item, wherever the item is moved.
update job set everywhere = 1 where kind >= 'robot/' and kind < 'robot0';
