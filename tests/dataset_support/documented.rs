//! The rows by docs/method.md, “Rows”, and by nothing of capbench's.

/// `COUNT(*) SUM(id) SUM(k) SUM(CRC32(c)) SUM(CRC32(pad)) BIT_XOR(CRC32(id,k,c,pad))` of a table whose `k` is uniform.
pub(crate) fn sums(seed: u64, table: u32, rows: u64) -> String {
    let (mut ids, mut keys, mut cs, mut pads, mut all) = (0_u128, 0_u128, 0_u128, 0_u128, 0_u32);
    for block in 0..rows.div_ceil(1000) {
        let stream = mix(mix(mix(seed).wrapping_add(u64::from(table))).wrapping_add(block));
        let mut random = Xoshiro::new(stream);
        for id in block * 1000 + 1..=((block + 1) * 1000).min(rows) {
            let k = 1 + high(random.next(), rows);
            let c = text(10, &mut random);
            let pad = text(5, &mut random);
            ids += u128::from(id);
            keys += u128::from(k);
            cs += u128::from(crc32(c.as_bytes()));
            pads += u128::from(crc32(pad.as_bytes()));
            all ^= crc32(format!("{id},{k},{c},{pad}").as_bytes());
        }
    }
    format!("{rows} {ids} {keys} {cs} {pads} {all}")
}

fn high(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 64).unwrap_or(u64::MAX)
}

/// Groups of eleven digits: each the first eleven decimals of one draw as a fraction of 2^64.
fn text(groups: usize, random: &mut Xoshiro) -> String {
    let group = |draw: u64| format!("{:011}", (u128::from(draw) * 100_000_000_000) >> 64);
    let all: Vec<String> = (0..groups).map(|_| group(random.next())).collect();
    all.join("-")
}

fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// xoshiro256++ (Blackman and Vigna), seeded by four outputs of `SplitMix64`.
struct Xoshiro([u64; 4]);

impl Xoshiro {
    fn new(seed: u64) -> Self {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        Self([0, 1, 2, 3].map(|i: u64| mix(seed.wrapping_add(step.wrapping_mul(i)))))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
