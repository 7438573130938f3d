// SPDX-License-Identifier: Apache-2.0
// Elementary functions with the same bits on every machine. libm picks variants
// by CPU and changes between versions; these use only IEEE operations and
// explicit fma, in double, and are good to about 1e-15.
#pragma once

namespace lumen {

double Exp(double x);                      // inf above 709.78, 0 below -745.1
double Log(double x);                      // -inf at 0, NaN below
double Cos(double x);                      // REQUIRES: |x| <= 1e5
double Pow(double base, double exponent);  // REQUIRES: base >= 0

}  // namespace lumen
