-- Dissects aggregated packets of Millrace, version 1 of docs/aggregation-format.md: over UDP (port 50261, or another
-- one set in the preferences), and in Ethernet frames of EtherType 0x88b5, as inside of VXLAN.
--
-- Put it into the plugin directory (Help, About, Folders), or: tshark -X lua_script:millrace-aggregation.lua -r FILE

local VERSION, TYPE_ETHERNET = 1, 1
local HEADER, LENGTH, MIN_PACKET = 4, 2, 14

local aggregate = Proto("millrace", "Millrace Aggregated Packets")

local fields = {
    version = ProtoField.uint8("millrace.version", "Version"),
    kind = ProtoField.uint8("millrace.type", "Type", base.DEC, { [TYPE_ETHERNET] = "Ethernet frames" }),
    number = ProtoField.uint16("millrace.number", "Number of packets"),
    entry = ProtoField.none("millrace.packet", "Packet"),
    length = ProtoField.uint16("millrace.length", "Length"),
    padding = ProtoField.bytes("millrace.padding", "Padding"),
}
aggregate.fields = fields

local malformed = ProtoExpert.new("millrace.malformed", "Malformed aggregate", expert.group.MALFORMED, expert.severity.ERROR)
aggregate.experts = { malformed }

aggregate.prefs.port = Pref.uint("UDP port", 50261, "The UDP port of aggregates")

local ethernet = Dissector.get("eth_withoutfcs")

-- Adds the error, and gives up the rest.
local function wrong(tree, tvb, message)
    tree:add_proto_expert_info(malformed, message)
    return tvb:len()
end

function aggregate.dissector(tvb, pinfo, root)
    local size = tvb:len()
    if size < 1 then
        return 0
    end
    local tree = root:add(aggregate, tvb())
    tree:add(fields.version, tvb(0, 1))
    local version = tvb(0, 1):uint()
    if version ~= VERSION then
        return wrong(tree, tvb, "unknown version " .. version)
    end
    if size < HEADER then
        return wrong(tree, tvb, "truncated header")
    end
    tree:add(fields.kind, tvb(1, 1))
    tree:add(fields.number, tvb(2, 2))
    local kind, number = tvb(1, 1):uint(), tvb(2, 2):uint()
    tree:append_text(", " .. number .. " packets")
    if kind ~= TYPE_ETHERNET then
        return wrong(tree, tvb, "unknown type " .. kind)
    end
    if number == 0 then
        return wrong(tree, tvb, "empty")
    end

    -- Everything is checked before the first packet is shown as one, as receivers do.
    local places, at = {}, HEADER
    for index = 1, number do
        if at + LENGTH > size then
            return wrong(tree, tvb, "truncated: packet " .. index .. " of " .. number .. " has no length")
        end
        local length = tvb(at, LENGTH):uint()
        local start, padding = at + LENGTH, length % 2
        if length < MIN_PACKET then
            return wrong(tree, tvb, "packet " .. index .. " is shorter than an Ethernet header")
        end
        if start + length + padding > size then
            return wrong(tree, tvb, "truncated: packet " .. index .. " of " .. number .. " ends behind the end")
        end
        if padding == 1 and tvb(start + length, 1):uint() ~= 0 then
            return wrong(tree, tvb, "padding of packet " .. index .. " is not zero")
        end
        places[index] = { at = at, start = start, length = length, padding = padding }
        at = start + length + padding
    end

    for index, place in ipairs(places) do
        local all = LENGTH + place.length + place.padding
        local entry = tree:add(fields.entry, tvb(place.at, all))
        entry:set_text("Packet " .. index .. " of " .. number .. ", " .. place.length .. " bytes")
        entry:add(fields.length, tvb(place.at, LENGTH))
        if place.padding == 1 then
            entry:add(fields.padding, tvb(place.start + place.length, 1))
        end
        ethernet:call(tvb(place.start, place.length):tvb(), pinfo, entry)
    end
    pinfo.cols.protocol = "MILLRACE"
    pinfo.cols.info = number .. " packets in an aggregate"
    return at
end

DissectorTable.get("ethertype"):add(0x88b5, aggregate)

local registered = nil

-- Follows the preference.
local function register()
    local udp = DissectorTable.get("udp.port")
    if registered then
        udp:remove(registered, aggregate)
    end
    registered = aggregate.prefs.port
    udp:add(registered, aggregate)
end

function aggregate.prefs_changed()
    if registered ~= aggregate.prefs.port then
        register()
    end
end

register()
