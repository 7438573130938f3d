#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_layers.py finds each kind of broken rule, and passes a good tree."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().with_name("check_layers.py")
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def run(files):
    """Runs the check over a tree of {path: text}; SPDX lines are added."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SPDX + text)
        done = subprocess.run([sys.executable, CHECK, f"--root={root}"],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout


class CheckLayers(unittest.TestCase):

    def rejects(self, path, text, message, line=2):
        code, output = run({path: text})
        self.assertEqual(code, 1, output)
        self.assertIn(f"{path}:{line}: ", output)
        self.assertIn(message, output)

    def accepts(self, path, text):
        code, output = run({path: text})
        self.assertEqual(code, 0, output)

    def test_a_good_tree_passes(self):
        code, output = run({
            "include/lumen/core/a.h": "#pragma once\n#include <vector>\n",
            "src/core/parallel.cc":
                "#include <omp.h>\n#pragma omp parallel for\n",
            "src/train/t.cc": '#include "lumen/comm/c.h"\n',
            "comm/c.cc": '#include <mpi.h>\n#include "lumen/sparse/s.h"\n',
            "data/d.cc": "#include <hdf5.h>\n#include <glog/logging.h>\n",
            "sparse/o.cc": "#include <dnnl.hpp>\n#pragma omp simd\n",
            "src/main.cc": "#include <gflags/gflags.h>\n#include <iostream>\n"
                           "int main() { google::InitGoogleLogging(0); }\n",
            "tests/comm/c_test.cc": "#include <gtest/gtest.h>\n",
        })
        self.assertEqual(code, 0, output)
        self.assertIn("8 files, 0 broken rules", output)

    def test_an_empty_tree_fails(self):
        self.assertEqual(run({})[0], 1)

    def test_lower_modules_do_not_know_higher_ones(self):
        for path, header in [("src/core/a.cc", "sparse"),
                             ("sparse/a.cc", "nn"), ("sparse/a.cc", "data"),
                             ("comm/a.cc", "train"), ("src/nn/a.cc", "train")]:
            self.rejects(path, f'#include "lumen/{header}/x.h"\n',
                         f"may not know {header}")

    def test_nn_data_and_comm_do_not_know_one_another(self):
        for path in ["src/nn/a.cc", "data/a.cc", "comm/a.cc"]:
            for header in ["nn", "data", "comm"]:
                line = f'#include "lumen/{header}/x.h"\n'
                if header in path:
                    self.accepts(path, line)
                else:
                    self.rejects(path, line, f"may not know {header}")

    def test_public_headers_obey_the_order_too(self):
        self.rejects("include/lumen/core/a.h",
                     '#pragma once\n#include "lumen/nn/x.h"\n',
                     "core may not know nn", line=3)

    def test_third_parties_stay_at_home(self):
        for path, header in [("src/train/a.cc", "mpi.h"),
                             ("src/train/a.cc", "hdf5.h"),
                             ("src/nn/a.cc", "dnnl.hpp"),
                             ("src/nn/a.cc", "oneapi/dnnl/dnnl.hpp"),
                             ("src/train/a.cc", "boost/json.hpp"),
                             ("src/main.cc", "boost/json/src.hpp"),
                             ("src/core/a.cc", "gtest/gtest.h"),
                             ("tests/data/a_test.cc", "mpi.h")]:
            self.rejects(path, f"#include <{header}>\n", "only")

    def test_public_headers_stay_free_of_third_parties(self):
        self.rejects("include/lumen/comm/a.h", "#pragma once\n#include <mpi.h>\n",
                     "public headers", line=3)

    def test_gflags_and_log_start_only_beside_a_main(self):
        self.rejects("src/core/a.cc", "#include <gflags/gflags.h>\n", "main()")
        self.rejects("src/core/a.cc", "void F() { InitGoogleLogging(p); }\n",
                     "main()")

    def test_threads_come_from_one_file(self):
        self.rejects("sparse/a.cc", "#include <omp.h>\n", "parallel.cc")
        self.rejects("sparse/a.cc", "#pragma omp parallel for\n", "parallel.cc")
        self.rejects("sparse/a.cc", "int n = omp_get_max_threads();\n",
                     "parallel.cc")

    def test_library_code_never_prints(self):
        for line in ["std::cout << 1;", "std::cerr << 1;", 'printf("x");',
                     'std::printf("x");', 'fprintf(stderr, "x");', 'puts("x");',
                     'fmt::print("x");', "#include <iostream>"]:
            self.rejects("src/train/a.cc", line + "\n", "never prints")
        for line in ['std::snprintf(b, n, "x");', "// std::cout << 1;",
                     'Throw("use printf(x)");', "/* printf(1) */",
                     'auto s = R"(std::cout)";', "FprintfLike(x);"]:
            self.accepts("src/train/a.cc", line + "\n")

    def test_fmt_stays_out_of_headers(self):
        self.rejects("include/lumen/core/a.h",
                     "#pragma once\n#include <fmt/format.h>\n", ".cc", line=3)

    def test_unknown_modules_and_missing_marks_are_findings(self):
        self.rejects("src/extra/a.cc", "int x;\n", "no module extra", line=1)
        self.rejects("include/lumen/core/a.h", "int x;\n", "#pragma once",
                     line=1)

    def test_long_files_are_reported_but_pass(self):
        code, output = run({"src/core/a.cc": "int x;\n" * 501})
        self.assertEqual(code, 0)
        self.assertIn("src/core/a.cc has 502 lines", output)


if __name__ == "__main__":
    unittest.main()
