// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

#[test]
fn every_program_is_part_of_a_way_and_every_way_names_programs_of_its_family() {
    let methods = || CANDIDATES.iter().chain(EVENT_CANDIDATES);
    for hook in CATALOG {
        assert!(methods().any(|w| w.programs.contains(&hook.program)), "{}", hook.program);
    }
    for method in methods() {
        for program in method.programs {
            let hook = &CATALOG[number_of(program).unwrap()];
            assert_eq!(hook.kind.method(), method.method, "{program}");
        }
    }
}

#[test]
fn a_second_instance_and_its_first_find_each_other() {
    let seconds: Vec<_> = CATALOG.iter().filter(|h| h.is_second()).collect();
    let [second] = seconds[..] else { panic!("{seconds:?}") };
    let first = &CATALOG[second.other().unwrap()];
    assert!(!first.is_second());
    assert_eq!(CATALOG[first.other().unwrap()].program, second.program);
    assert_eq!(CATALOG[number_of("start_raw").unwrap()].other(), None);
}

#[test]
fn the_methods_of_a_point_are_ordered_by_accuracy() {
    let target = |c: &Candidate| CATALOG[number_of(c.programs[0]).unwrap()].target.name();
    for pair in CANDIDATES.windows(2) {
        if pair[0].role == pair[1].role {
            // of several with a method, each is for a function of other kernels
            let is_other = pair[0].method == pair[1].method && target(&pair[0]) != target(&pair[1]);
            assert!(pair[0].method < pair[1].method || is_other, "{pair:?}");
        } else {
            assert!(pair[0].role < pair[1].role, "{pair:?}");
        }
    }
    for point in Point::ALL {
        assert!(CANDIDATES.iter().any(|c| c.role == Role::Point(point)));
    }
}
