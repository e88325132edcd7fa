//! The words of the page, for somebody who has never heard of queue depth: each is explained where it first stands.

pub(super) const BLOCK: &str = "A block is the piece that a program asks for in one go: here 4 KiB (a page of text) to \
    512 KiB (a photo). A device hands out whole blocks only, so whoever needs ten bytes waits for a whole one.";

pub(super) const LATENCY: &str = "Latency is how long one request takes, from asking until the bytes are there. It is \
    what a program waits for that can do nothing before it has them.";

pub(super) const IOPS: &str = "IOPS are requests completed per second (input/output operations per second). Large \
    blocks give few of them and yet more bytes, so the number says nothing without the size of the block.";

pub(super) const BANDWIDTH: &str = "Bandwidth is bytes per second: IOPS times the size of the block. Megabytes here are \
    1,000,000 bytes, as the makers of devices count them.";

pub(super) const DEPTH: &str = "Depth is how many requests a program has asked for and not yet got: with depth 1 it \
    waits for each before it asks for the next, with depth 32 it always has 32 under way. A solid-state disk has many \
    chips that work at the same time, and only a program that asks for many things at once keeps them all busy.";

pub(super) const CURVE: &str = "Each point is a depth. At first more depth buys throughput and hardly costs latency; \
    past the bend it buys nothing any more, and all that is added stands in line. The bend is where two limits meet: \
    nobody gets more than one request per latency for each that is in flight, and the device has a most that it can \
    do. The depth at \
    which they meet is called N*, the product of the highest throughput and the latency at depth 1. No lesser depth can \
    reach the highest throughput; a device in which requests get into each other's way needs more.";

pub(super) const LITTLE: &str = "There is a law for everything in which something waits, found by J. D. C. Little: the mean \
    number in flight is throughput × mean latency (X·W). If forty people an hour enter a shop and each stays half an \
    hour, twenty are inside. So X·W has to be the depth that was asked for: if it is less, either that many were never \
    in flight, or the latencies leave out a part of the waiting.\n\n\
    The published study says that its table over depths proves this law. Its own figures show the opposite: from depth \
    32 on its latencies account for half of the requests in flight. What it printed is most likely the time in the \
    device, without the time in the queue of the program. Here every cell is checked against the law twice, with the \
    depth that was asked for and with a count of what was in flight, taken at random moments.";

pub(super) const MIX: &str = "From reads only, on the left, to writes only, on the right, one request at a time. If \
    reads and writes did not disturb one another, each would take of every second what it takes alone, and the rate of \
    a mix would be the harmonic mean of the two pure rates. What is below that is what they cost each other.";

pub(super) const DISTRIBUTION: &str = "A mean hides the slow ones. These three look closely at one cell, reads of 16 KiB \
    one at a time: how slow the slowest are, how latencies are spread, and whether the device was the same from \
    beginning to end.";

pub(super) const CHECKS: &str = "A figure is believed when all of these hold. X·W ÷ N and X·W ÷ what was seen in flight lie \
    within 3% of 1. The device itself says that as many bytes were read and written as were asked for \
    (0.95 to 1.10 of them): fewer means that a cache or compression stood in between. Bandwidth stays below what the \
    link to the device can carry. The busiest thread used less than 0.90 of a processor: above, the tool is what is \
    slow. Five stretches of the run differ by at most 0.20 of their mean, and a line through them rises or falls by at \
    most 0.10. A dash means that there was nothing to check.";

pub(super) const TABLES: &str = "Published figures come from another machine, a minute per cell: they are there to \
    compare the shape, not the speed.";
