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
    use crate::machine;
    use crate::machine::elf::section;
    use crate::machine::reduced::{READ, reduced};
    use crate::session::load::{VARIABLES, hide_kernel_data, reads_kernel_data};
    use bytemuck::Zeroable;
    use libbpf_rs::ObjectBuilder;
    use libbpf_rs::btf::types::{DataSec, Enum, Int, Struct, Var};
    use libbpf_rs::btf::{Btf, BtfType, HasSize, ReferencesType};
    use std::collections::BTreeSet;
    use std::io::Write;
    use tempfile::NamedTempFile;

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

    /// The kernel rejects the BTF of an object with a variable that clang has made smaller than its type.
    #[test]
    fn variables_are_as_large_as_their_types() {
        let mut seen = 0;
        for (name, object) in objects() {
            let btf = Btf::from_raw("object", &object).unwrap().unwrap();
            let sections =
                [".bss", ".data", ".rodata"].map(|name| btf.type_by_name::<DataSec<'_>>(name));
            for section in sections.iter().flatten() {
                for place in section.iter() {
                    let variable = btf.type_by_id::<Var<'_>>(place.ty).unwrap();
                    let number = variable.referenced_type().skip_mods_and_typedefs();
                    if let Ok(number) = Int::try_from(number) {
                        assert_eq!(number.size(), place.size, "{name}: {variable:?}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > BUILDS.len(), "{seen}");
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

    /// The ids of the types that CO-RE relocations of an object begin with (`struct bpf_core_relo`).
    fn relocated(object: &[u8]) -> BTreeSet<u32> {
        let ext = section(object, ".BTF.ext").unwrap();
        let word = |at: usize| u32::from_ne_bytes(ext[at..at + 4].try_into().unwrap());
        // the third table of the header, after functions and lines
        let mut at = (word(4) + word(24)) as usize;
        let end = at + word(28) as usize;
        let mut ids = BTreeSet::new();
        if at == end {
            return ids;
        }
        let bytes = word(at) as usize;
        at += 4;
        while at < end {
            let count = word(at + 4) as usize;
            at += 8;
            ids.extend((0..count).map(|number| word(at + number * bytes + 4)));
            at += count * bytes;
        }
        ids
    }

    /// The name of a type, without the suffix of a flavor.
    fn named(btf: &Btf<'_>, id: u32) -> String {
        let of = btf.type_by_id::<BtfType<'_>>(id.into()).unwrap();
        let name = of.name().unwrap().to_str().unwrap();
        name.split("___").next().unwrap().to_owned()
    }

    /// libbpf is given the types in READ. For any other it would find that it does not exist.
    #[test]
    fn all_relocated_types_are_in_the_list() {
        let mut seen = BTreeSet::new();
        for (_, object) in objects() {
            let btf = Btf::from_raw("object", &object).unwrap().unwrap();
            let ids = relocated(&object);
            seen.extend(ids.into_iter().map(|id| named(&btf, id)));
        }
        let listed = READ.map(str::to_owned).into_iter();
        let mut want: BTreeSet<_> = listed.chain(["nd_type_id".to_owned()]).collect();
        if !cfg!(target_arch = "aarch64") {
            want.remove("bpf_func_id"); // of fence(), which is an instruction only there
        }
        assert_eq!(seen, want);
    }

    /// Compares the types in READ, whole as libbpf reads them, reduced as it reads those, and as our reader does.
    /// Returns how many there are.
    fn same_types(what: &str, whole: &Btf<'_>, file: &[u8]) -> usize {
        let ours = machine::btf::Btf::parse(file).unwrap();
        let mut reduced_file = NamedTempFile::new().unwrap();
        reduced_file.write_all(&reduced(&[&ours], Some(&ours))).unwrap();
        let small = Btf::from_path(reduced_file.path()).unwrap();
        assert!(small.len() < whole.len());
        let members = |of: &Struct<'_>| -> Vec<String> {
            of.iter().map(|m| format!("{:?} {:?}", m.name, m.attr)).collect()
        };
        let values = |of: &Enum<'_>| -> Vec<String> {
            of.iter().map(|m| format!("{:?} {}", m.name, m.value)).collect()
        };
        let mut seen = 0;
        for name in READ {
            if let Some(from) = whole.type_by_name::<Struct<'_>>(name) {
                let to = small.type_by_name::<Struct<'_>>(name).unwrap();
                assert_eq!(members(&from), members(&to), "{what}: {name}");
                let layout = ours.structure(name).unwrap();
                assert_eq!([layout.size as usize, to.size()], [from.size(); 2]);
                seen += 1;
            }
            if let Some(from) = whole.type_by_name::<Enum<'_>>(name) {
                let to = small.type_by_name::<Enum<'_>>(name).unwrap();
                assert_eq!(values(&from), values(&to), "{what}: {name}");
                seen += 1;
            }
        }
        if let Some(request) = whole.type_by_name::<Struct<'_>>("request") {
            let ids = small.type_by_name::<Enum<'_>>("nd_type_id").unwrap();
            let want: u32 = request.type_id().into();
            assert_eq!(ids.get(0).unwrap().value, i64::from(want));
        }
        seen
    }

    #[test]
    fn libbpf_reads_the_reduced_types_as_the_whole_ones() {
        let mut seen = 0;
        for (name, object) in objects() {
            let whole = Btf::from_raw("object", &object).unwrap().unwrap();
            seen += same_types(name, &whole, &object);
        }
        assert!(seen > 5 * BUILDS.len(), "{seen}");
        // and of this machine's kernel, if it has any
        let kernel = "/sys/kernel/btf/vmlinux";
        if let Ok(file) = std::fs::read(kernel) {
            let whole = Btf::from_path(kernel).unwrap();
            assert!(same_types(kernel, &whole, &file) > 5);
        }
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
