// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/onednn.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "dnnl.hpp"

namespace lumen::sparse {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
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

template <class Primitive, class ForwardDescription, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(
    const dnnl::engine& engine, const ForwardDescription& forward,
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

struct OneDnnConv::Primitives {
  using Dims = memory::dims;

  Primitives(int64_t batch, const Shape& input, int64_t outputs,
             const Window& window)
      : strides(window.stride.begin(), window.stride.end()),
        padding(window.padding.begin(), window.padding.end()),
        // Counted from 0 there.
        dilation{window.dilation[0] - 1, window.dilation[1] - 1} {
    const Shape output = Addressing::OfWindow(input, outputs, window).output();
    const Dims x_dims = {batch, input.channels, input.height, input.width};
    const Dims y_dims = {batch, outputs, output.height, output.width};
    Dims w_dims = {outputs, input.channels / window.groups, window.size[0],
                   window.size[1]};
    auto w_format = memory::format_tag::oihw;
    if (window.groups > 1) {
      w_dims[0] /= window.groups;
      w_dims.insert(w_dims.begin(), window.groups);
      w_format = memory::format_tag::goihw;
    }
    plain_x = Plain(x_dims, memory::format_tag::nchw);
    plain_y = Plain(y_dims, memory::format_tag::nchw);
    plain_w = Plain(w_dims, w_format);
    const memory::desc any_x = Plain(x_dims, memory::format_tag::any);
    const memory::desc any_y = Plain(y_dims, memory::format_tag::any);
    const memory::desc any_w = Plain(w_dims, memory::format_tag::any);

    const auto direct = dnnl::algorithm::convolution_direct;
    const auto forward_desc = Describe<convolution_forward>(
        engine, dnnl::prop_kind::forward_training, direct, any_x, any_w, any_y,
        strides, dilation, padding, padding);
    const auto data_desc = DescribeBackward<convolution_backward_data>(
        engine, forward_desc, direct, any_x, any_w, any_y, strides, dilation,
        padding, padding);
    const auto weights_desc = DescribeBackward<convolution_backward_weights>(
        engine, forward_desc, direct, any_x, any_w, any_y, strides, dilation,
        padding, padding);
    forward = convolution_forward(forward_desc);
    backward_data = convolution_backward_data(data_desc);
    backward_weights = convolution_backward_weights(weights_desc);
    x = {forward_desc.src_desc(), engine};
    w = {forward_desc.weights_desc(), engine};
    y = {forward_desc.dst_desc(), engine};
    data_w = {data_desc.weights_desc(), engine};
    data_dy = {data_desc.diff_dst_desc(), engine};
    dx = {data_desc.diff_src_desc(), engine};
    weights_x = {weights_desc.src_desc(), engine};
    weights_dy = {weights_desc.diff_dst_desc(), engine};
    dw = {weights_desc.diff_weights_desc(), engine};
  }

  static memory::desc Plain(const Dims& dims, memory::format_tag format) {
    return {dims, memory::data_type::f32, format};
  }
  void Reorder(memory from, memory to) {
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
  }
  void Set(const memory::desc& plain, const float* data, const memory& to) {
    Reorder({plain, engine, const_cast<float*>(data)}, to);
  }
  void Get(const memory& from, const memory::desc& plain, float* data) {
    Reorder(from, {plain, engine, data});
  }
  void Run(const dnnl::primitive& primitive,
           const std::unordered_map<int, memory>& arguments) {
    primitive.execute(stream, arguments);
    stream.wait();
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  Dims strides, padding, dilation;
  memory::desc plain_x, plain_w, plain_y;
  convolution_forward forward;
  convolution_backward_data backward_data;
  convolution_backward_weights backward_weights;
  // Each primitive has formats of its own.
  memory x, w, y;
  memory data_w, data_dy, dx;
  memory weights_x, weights_dy, dw;
};

OneDnnConv::OneDnnConv(int64_t batch, const Shape& input, int64_t outputs,
                       const Window& window)
    : primitives_(std::make_unique<Primitives>(batch, input, outputs, window)) {
}
OneDnnConv::~OneDnnConv() = default;

void OneDnnConv::SetX(const float* x) {
  Primitives& p = *primitives_;
  p.Set(p.plain_x, x, p.x);
  p.Set(p.plain_x, x, p.weights_x);
}

void OneDnnConv::SetWeight(const float* w) {
  Primitives& p = *primitives_;
  p.Set(p.plain_w, w, p.w);
  p.Set(p.plain_w, w, p.data_w);
}

void OneDnnConv::SetDy(const float* dy) {
  Primitives& p = *primitives_;
  p.Set(p.plain_y, dy, p.data_dy);
  p.Set(p.plain_y, dy, p.weights_dy);
}

void OneDnnConv::Forward() {
  Primitives& p = *primitives_;
  p.Run(p.forward,
        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_WEIGHTS, p.w}, {DNNL_ARG_DST, p.y}});
}

void OneDnnConv::BackwardData() {
  Primitives& p = *primitives_;
  p.Run(p.backward_data, {{DNNL_ARG_DIFF_DST, p.data_dy},
                          {DNNL_ARG_WEIGHTS, p.data_w},
                          {DNNL_ARG_DIFF_SRC, p.dx}});
}

void OneDnnConv::BackwardWeights() {
  Primitives& p = *primitives_;
  p.Run(p.backward_weights, {{DNNL_ARG_SRC, p.weights_x},
                             {DNNL_ARG_DIFF_DST, p.weights_dy},
                             {DNNL_ARG_DIFF_WEIGHTS, p.dw}});
}

void OneDnnConv::GetY(float* y) {
  primitives_->Get(primitives_->y, primitives_->plain_y, y);
}
void OneDnnConv::GetDx(float* dx) {
  primitives_->Get(primitives_->dx, primitives_->plain_x, dx);
}
void OneDnnConv::GetDw(float* dw) {
  primitives_->Get(primitives_->dw, primitives_->plain_w, dw);
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." +
         std::to_string(version->minor) + "." + std::to_string(version->patch);
}

void LimitOneDnn(Isa isa) {
  if (isa == Isa::kAvx512) return;
  dnnl::set_max_cpu_isa(isa == Isa::kAvx2 ? dnnl::cpu_isa::avx2
                                          : dnnl::cpu_isa::sse41);
}

}  // namespace lumen::sparse
