// config/setting_forms.hpp: what the values of a setting may look like. A form reads one, writes it back and says what is allowed.
//
//   allowed()  completes "allowed: " in an error
//   read()     nothing when the value is not allowed
//   write()    TOML that read() takes to the same value
#pragma once
#include "config/settings.hpp"
#include "config/written_value.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::forms {

// A TOML basic string, with what has to be escaped.
std::string toml_string(std::string_view text);
// The shortest text that reads back as the same number.
std::string shortest_number(double number);
std::string shortest_number(float number);

struct flag {
  std::string allowed() const { return "true or false"; }
  std::optional<bool> read(const written_value& value) const { return value.flag(); }
  std::string write(bool value) const { return value ? "true" : "false"; }
};

// A whole number from `min` to `max`; TOML has none above 2^63 - 1.
template <class Int>
struct whole {
  Int min;
  Int max;
  std::string allowed() const { return "a whole number from " + std::to_string(min) + " to " + std::to_string(max); }
  std::optional<Int> read(const written_value& value) const {
    const auto number = value.whole();
    if (!number || *number < 0) return std::nullopt;
    const auto magnitude = static_cast<std::uint64_t>(*number);
    if (magnitude < min || magnitude > max) return std::nullopt;
    return static_cast<Int>(magnitude);
  }
  std::string write(Int value) const { return std::to_string(value); }
};

struct number {
  float min;
  float max;
  std::string allowed() const { return "a number from " + shortest_number(min) + " to " + shortest_number(max); }
  std::optional<float> read(const written_value& value) const;
  std::string write(float value) const { return shortest_number(value); }
};

struct text {
  std::string_view what;  // what it names, and what "" means
  std::string allowed() const { return std::string(what); }
  std::optional<std::string> read(const written_value& value) const { return value.text(); }
  std::string write(const std::string& value) const { return toml_string(value); }
};

// "address:port", or "".
struct address {
  std::string allowed() const { return "\"address:port\" with a port from 1 to 65535, or \"\" for none"; }
  std::optional<std::string> read(const written_value& value) const;
  std::string write(const std::string& value) const { return toml_string(value); }
};

// A size in MiB that pages can be mapped in; 0 bytes stand for "auto".
struct segment_size {
  std::string allowed() const;
  std::optional<std::uint64_t> read(const written_value& value) const;
  std::string write(std::uint64_t bytes) const;
};

// Lists. Where "auto" is allowed, it is the empty list.
struct cards {
  std::string allowed() const { return R"("auto", or a list of "host" and "cuda:N" such as ["cuda:0", "cuda:1"])"; }
  std::optional<std::vector<card_choice>> read(const written_value& value) const;
  std::string write(const std::vector<card_choice>& value) const;
};

struct first_layers {
  std::string allowed() const { return R"("auto", or the first layer of each stage, rising from 0, such as [0, 24])"; }
  std::optional<std::vector<std::uint32_t>> read(const written_value& value) const;
  std::string write(const std::vector<std::uint32_t>& value) const;
};

struct reserves {
  std::uint32_t mib_max;
  std::string allowed() const;
  std::optional<std::vector<std::uint32_t>> read(const written_value& value) const;
  std::string write(const std::vector<std::uint32_t>& value) const;
};

struct endpoints {
  bool may_be_none = false;
  std::string allowed() const {
    return may_be_none ? R"("auto", or a list of it and of endpoints that begin with ipc:// or tcp://, or [] for none)"
                       : R"("auto", or a list of it and of endpoints that begin with ipc:// or tcp://)";
  }
  std::optional<std::vector<std::string>> read(const written_value& value) const;
  std::string write(const std::vector<std::string>& value) const;
};

struct origins {
  std::string allowed() const { return R"(a list of origins that begin with http:// or https://, such as ["http://127.0.0.1:8188"])"; }
  std::optional<std::vector<std::string>> read(const written_value& value) const;
  std::string write(const std::vector<std::string>& value) const;
};

}  // namespace ebb::forms
