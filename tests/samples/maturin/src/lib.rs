/// Returns how many bits of a number are set.
#[no_mangle]
pub extern "C" fn bits(number: u64) -> u32 {
    number.count_ones()
}
