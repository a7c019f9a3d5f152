//! Any bytes from a server, cut anywhere: no panic, no endless loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The first two bytes say where the rest is cut.
    if let [low, high, bytes @ ..] = input {
        capbench::load::survive(bytes, usize::from(u16::from_le_bytes([*low, *high])));
    }
    // And as a file of the corpus stands.
    capbench::load::survive(input, input.len() / 2);
});
