// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/onednn.h"

#include <unordered_map>
#include <utility>

#include "dnnl.hpp"

namespace lumen::sparse {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using dnnl::memory;

memory::desc Matrix(int64_t rows, int64_t columns) {
  return {{rows, columns}, memory::data_type::f32, memory::format_tag::nc};
}

// v2 wraps a description before the primitive descriptor, v3 does not.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine,
                                            Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(
      engine, std::forward<Arguments>(arguments)...);
#else
  return typename Primitive::primitive_desc(
      typename Primitive::desc(std::forward<Arguments>(arguments)...), engine);
#endif
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(
    const dnnl::engine& engine,
    const inner_product_forward::primitive_desc& forward,
    Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(
      engine, std::forward<Arguments>(arguments)..., forward);
#else
  return typename Primitive::primitive_desc(
      typename Primitive::desc(std::forward<Arguments>(arguments)...), engine,
      forward);
#endif
}

}  // namespace

struct OneDnnLinear::Primitives {
  Primitives(int64_t batch, int64_t inputs, int64_t outputs)
      : x(Matrix(batch, inputs)),
        w(Matrix(outputs, inputs)),
        b({outputs}, memory::data_type::f32, memory::format_tag::x),
        y(Matrix(batch, outputs)),
        forward_desc(Describe<inner_product_forward>(
            engine, dnnl::prop_kind::forward_training, x, w, b, y)),
        forward(forward_desc),
        backward_data(DescribeBackward<inner_product_backward_data>(
            engine, forward_desc, x, w, y)),
        backward_weights(DescribeBackward<inner_product_backward_weights>(
            engine, forward_desc, x, w, b, y)) {}

  memory Bind(const memory::desc& desc, const float* data) const {
    return {desc, engine, const_cast<float*>(data)};
  }
  void Run(const dnnl::primitive& primitive,
           const std::unordered_map<int, memory>& arguments) {
    primitive.execute(stream, arguments);
    stream.wait();
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory::desc x, w, b, y;
  inner_product_forward::primitive_desc forward_desc;
  inner_product_forward forward;
  inner_product_backward_data backward_data;
  inner_product_backward_weights backward_weights;
};

OneDnnLinear::OneDnnLinear(int64_t batch, int64_t inputs, int64_t outputs)
    : primitives_(std::make_unique<Primitives>(batch, inputs, outputs)) {}
OneDnnLinear::~OneDnnLinear() = default;

void OneDnnLinear::Forward(const float* x, const float* w, const float* bias,
                           float* y) {
  Primitives& p = *primitives_;
  p.Run(p.forward, {{DNNL_ARG_SRC, p.Bind(p.x, x)},
                    {DNNL_ARG_WEIGHTS, p.Bind(p.w, w)},
                    {DNNL_ARG_BIAS, p.Bind(p.b, bias)},
                    {DNNL_ARG_DST, p.Bind(p.y, y)}});
}

void OneDnnLinear::BackwardData(const float* dy, const float* w, float* dx) {
  Primitives& p = *primitives_;
  p.Run(p.backward_data, {{DNNL_ARG_DIFF_DST, p.Bind(p.y, dy)},
                          {DNNL_ARG_WEIGHTS, p.Bind(p.w, w)},
                          {DNNL_ARG_DIFF_SRC, p.Bind(p.x, dx)}});
}

void OneDnnLinear::BackwardWeights(const float* x, const float* dy, float* dw,
                                   float* db) {
  Primitives& p = *primitives_;
  p.Run(p.backward_weights, {{DNNL_ARG_SRC, p.Bind(p.x, x)},
                             {DNNL_ARG_DIFF_DST, p.Bind(p.y, dy)},
                             {DNNL_ARG_DIFF_WEIGHTS, p.Bind(p.w, dw)},
                             {DNNL_ARG_DIFF_BIAS, p.Bind(p.b, db)}});
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." +
         std::to_string(version->minor) + "." + std::to_string(version->patch);
}

}  // namespace lumen::sparse
