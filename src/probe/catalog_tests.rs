// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

#[test]
fn a_second_instance_and_its_first_find_each_other() {
    let seconds: Vec<_> = CATALOG.iter().filter(|h| h.is_second()).collect();
    let [second] = seconds[..] else { panic!("{seconds:?}") };
    let first = &CATALOG[second.other().unwrap()];
    assert!(!first.is_second());
    assert_eq!(CATALOG[first.other().unwrap()].program, second.program);
    assert_eq!(CATALOG[number_of("start_raw").unwrap()].other(), None);
}
