-- SPDX-License-Identifier: MIT
--
-- Set the size of a semaphore, also while it is in use; 0: as requests say, which is the size that it has until it is free.
--
-- Safe: nobody loses anything. What is held beyond a smaller size stays held, and nothing is granted until it fits; what fits into a
-- larger one is granted in this call, in the order of the queue. A name that is in use as another kind is left as it is. A second
-- copy finds the size set and changes nothing, unless somebody else has set another one in between: so a client does not send
-- it again by itself.
--
-- The tokens go on: the state keeps the last one, and what was set never expires. A full server refuses a new size (save()
-- writes first) unless somebody's end is found here.

-- include: state
-- include: clock
-- include: common

local wanted = ARGV[1] + 0

local state = settled(call('HGET', name, 'm'))
if state and byte(state) == HELD then
    local field, record, deadline = thin_holder(state)
    if now <= deadline then return { 'M', 0, 1 } end
    state = inflate(state)
end
open(state)
expire()
if holders == 0 then head() end -- a queue of the dead does not count
if (holders > 0 or waiters > 0) and mode ~= SEMAPHORE then
    promote()
    if dirty then save() end
    return { 'M', mode, capacity }
end
if wanted > 0 then
    if not sized or capacity ~= wanted then dirty = true end
    if mode == 1 then call('HDEL', name, 'u') end
    mode, capacity, sized = SEMAPHORE, wanted, true
elseif sized then
    sized, dirty = false, true
end
promote()
if dirty then save() end
return { 'R' }
