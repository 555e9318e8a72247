-- SPDX-License-Identifier: MIT
--
-- From one epoch to the next: grants and write-backs of the old one are refused from now on. The counters read
-- here are therefore above every token that the old epoch can still give with this node's vote.

-- include: node

local expected, new = ARGV[1], ARGV[2]
if not epoch then return { 'U' } end
if epoch ~= new then
    if epoch ~= expected then return { 'E', epoch } end
    if #new ~= 24 then error('an epoch has 24 bytes') end
    local old_number, number = unpack('<d', epoch), unpack('<d', new)
    if number == old_number then
        -- Then by id. Byte by byte: how Lua compares texts depends on the server's locale.
        for i = 9, 24 do
            local o, b = string.byte(epoch, i), string.byte(new, i)
            if o ~= b then
                if b < o then number = -1 end
                break
            end
        end
    end
    if number < old_number then error('epochs only rise') end
    call('HDEL', ckey, '') -- a write that needs no memory
    call('HSET', ckey, 'm', '\3' .. new .. sub(got[1], 26))
end
return { 'S', (unpack('<d', got[1], 58)) }
