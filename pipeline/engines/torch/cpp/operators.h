// What both ways to look at a step know of PyTorch's operators by their names.

#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace photofinish {

// Moves numbers into another order or type, where it copies at all.
inline constexpr std::string_view conversions[] = {
    "aten::_to_copy", "aten::clone",    "aten::contiguous",
    "aten::to",       "aten::to_dense", "aten::to_mkldnn",
};

// Autograd's loop around a function and what adds its results up.
inline constexpr std::string_view evaluation = "autograd::engine::evaluate_function";

template <std::size_t N>
bool is_among(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

inline bool is_evaluation(std::string_view name) {
  return name.substr(0, evaluation.size()) == evaluation;
}

}  // namespace photofinish
