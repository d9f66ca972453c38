// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the build of the BPF side for a run (build_table.rs).

use std::io;

use super::Config;
use super::build_table::{BUILDS, Entry, Need};
use crate::abi::{nd_config, nd_mode};
use crate::model::machine::Pairing;
use crate::model::point::Point;
use crate::probe::catalog::Method;
use crate::probe::plan::AttachPlan;
use anyhow::{Context, Result};

/// What build.rs made of an entry of the table.
struct Built {
    /// The object, compressed.
    packed: &'static [u8],
    /// Whether a run has the values that are fixed in the object.
    fits: fn(&nd_config) -> bool,
}

// `static BUILT: [Built; BUILDS.len()]`, in the order of the table
include!(concat!(env!("OUT_DIR"), "/built.rs"));

/// The build of a run.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    entry: &'static Entry,
    packed: &'static [u8],
}

fn is_met(need: Need, plan: &AttachPlan, config: &Config<'_>) -> bool {
    match need {
        Need::Requests => plan.pairing == Pairing::Request,
        Need::Tags => plan.pairing == Pairing::Tag,
        Need::KernelBtf => config.facts.vmlinux_btf,
        Need::SetupEvent => plan.method_of(Point::SetupOut) != Some(Method::Kprobe),
    }
}

/// The first build whose needs are met, and that fixes no other value.
fn choose(values: &nd_config, is_met: impl Fn(Need) -> bool) -> Result<Build> {
    let suits = |(entry, built): &(&Entry, &Built)| {
        (built.fits)(values) && entry.needs.iter().all(|need| is_met(*need))
    };
    let found = BUILDS.iter().zip(&BUILT).find(suits);
    // the plan asks for nothing that the builds cannot do
    let (entry, built) = found.context("no build of the BPF programs can do this run")?;
    Ok(Build { entry, packed: built.packed })
}

impl Build {
    /// The build for a run with this plan and these values.
    ///
    /// # Errors
    /// If no build fits.
    pub fn of(plan: &AttachPlan, config: &Config<'_>, values: &nd_config) -> Result<Self> {
        choose(values, |need| is_met(need, plan, config))
    }

    /// Whether its programs read types of the kernel.
    pub fn reads_types(self) -> bool {
        self.entry.needs.contains(&Need::Requests)
    }

    /// The object file.
    ///
    /// # Errors
    /// If zstd lacks memory.
    pub fn object(self) -> io::Result<Vec<u8>> {
        zstd::decode_all(self.packed)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::session::load::{VARIABLES, hide_kernel_data, reads_kernel_data};
    use bytemuck::Zeroable;
    use libbpf_rs::ObjectBuilder;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{DataSec, Var};
    use std::collections::BTreeSet;

    impl Build {
        pub fn name(self) -> &'static str {
            self.entry.name
        }
    }

    /// The build for these values, on a machine and for a run that lack some needs.
    fn with(change: impl Fn(&mut nd_config), lacks: &[Need]) -> &'static str {
        let mut values = nd_config::zeroed();
        values.recover = 1;
        change(&mut values);
        let is_met = |need| match need {
            Need::Tags => lacks.contains(&Need::Requests),
            _ => !lacks.contains(&need),
        };
        choose(&values, is_met).unwrap().name()
    }

    const fn basic(c: &mut nd_config) {
        c.mode = nd_mode::ND_MODE_BASIC.0;
    }

    #[test]
    fn each_kind_of_run_has_its_build() {
        use Need::{KernelBtf, Requests, SetupEvent};
        let fine = |c: &mut nd_config| c.mode = nd_mode::ND_MODE_FINE.0;
        let traced = |c: &mut nd_config| (c.trace, c.context) = (2, 1);
        let cases = [
            (with(|_| (), &[]), "nvme_deep_total"),
            (with(|c| (c.details, c.count_status) = (1, 1), &[]), "nvme_deep_total"),
            (with(basic, &[]), "nvme_deep_basic"),
            (with(fine, &[]), "nvme_deep_usual"),
            (with(|c| (c.trace, c.context) = (2, 1), &[]), "nvme_deep_usual"),
            (with(|c| (fine(c), c.waits = 1).0, &[]), "nvme_deep_usual"),
            (with(|c| (fine(c), traced(c), c.waits = 1, c.who = 7).0, &[]), "nvme_deep_usual"),
            (with(|c| c.by = 1, &[]), "nvme_deep_usual"),
            (with(|c| c.nests = 1, &[]), "nvme_deep"),
            (with(|c| (c.by, c.targ_any) = (1, 1), &[]), "nvme_deep"),
            (with(traced, &[SetupEvent]), "nvme_deep"),
            (with(traced, &[KernelBtf]), "nvme_deep_plain"),
            (with(|c| c.by = 1, &[KernelBtf]), "nvme_deep_plain"),
            (with(|_| (), &[Requests]), "tracepoint"),
        ];
        for (case, (found, want)) in cases.iter().enumerate() {
            assert_eq!(found, want, "case {case}");
        }
        let reached: BTreeSet<_> = cases.iter().map(|(found, _)| *found).collect();
        assert_eq!(reached.len(), BUILDS.len());
    }

    /// The names of the builds, and their objects.
    pub fn objects() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        let object = |built: &Built| zstd::decode_all(built.packed).unwrap();
        let objects = BUILT.iter().map(object);
        BUILDS.iter().map(|entry| entry.name).zip(objects)
    }

    /// The kernel's variables that an object names.
    fn variables_of_kernel(object: &[u8]) -> BTreeSet<String> {
        let btf = Btf::from_raw("object", object).unwrap().unwrap();
        let Some(section) = btf.type_by_name::<DataSec<'_>>(".ksyms") else {
            return BTreeSet::new();
        };
        let places = section.iter();
        // libbpf's linker turns functions into this variable
        let variables = places.filter_map(|place| btf.type_by_id::<Var<'_>>(place.ty));
        let variables = variables.filter(|v| v.name().unwrap() != "dummy_ksym");
        variables.map(|v| v.name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    /// libbpf still opens the object: its BTF and its symbols have the same names.
    #[test]
    fn an_object_names_no_variable_that_the_kernel_hides() {
        let mut seen = BTreeSet::new();
        for (name, mut object) in objects() {
            let variables = variables_of_kernel(&object);
            assert_eq!(reads_kernel_data(&object), !variables.is_empty(), "{name}");
            hide_kernel_data(&mut object);
            let renamed = variables.iter().map(|variable| format!("N{}", &variable[1..]));
            assert_eq!(variables_of_kernel(&object), renamed.collect(), "{name}");
            ObjectBuilder::default().open_memory(&object).unwrap();
            seen.extend(variables);
        }
        let all = VARIABLES.map(str::to_owned);
        assert_eq!(seen, all.into());
    }

    #[test]
    fn what_is_fixed_in_a_build_is_not_lost() {
        let rare: [fn(&mut nd_config); 11] = [
            |c| c.recover = 0,
            |c| c.lossy = 1,
            |c| c.by_name = 1,
            |c| c.check_fit = 1,
            |c| c.rq_second = 1,
            |c| c.cmd_arg = 1,
            |c| c.stack_at_entry = 1,
            |c| c.test_ignore_every = 97,
            |c| c.targ_any = 1,
            |c| c.targ_by_lba = 1,
            |c| c.targ_by_cgroup = 2,
        ];
        for (case, change) in rare.into_iter().enumerate() {
            assert_eq!(with(change, &[]), "nvme_deep", "case {case}");
        }
        let of_stages: [fn(&mut nd_config); 4] =
            [|c| c.end = 1, |c| c.start_hook = 1, |c| c.start_field = 1, |c| c.doorbell = 1];
        for change in of_stages {
            assert_eq!(with(change, &[]), "nvme_deep_usual");
        }
    }
}
