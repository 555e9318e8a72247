// SPDX-License-Identifier: MIT
/// @file
/// Holdfast for C++17: distributed locks. This is the only header that a program includes.
///
/// @mainpage Holdfast for C++
///
/// holdfast::store gives a holdfast::lease, a guard with a fencing token. holdfast::mutex,
/// holdfast::shared_mutex and holdfast::semaphore have the interface of the standard library's.
/// What is built on them: holdfast::cell, holdfast::counter, holdfast::guard, holdfast::limit,
/// holdfast::latch, holdfast::barrier, holdfast::election, holdfast::group, holdfast::once.
///
/// The last argument of a call, its mode, says how it is made: without one it blocks and throws
/// holdfast::error; with `std::nothrow` it blocks and returns a holdfast::result; with a callable it
/// begins, and the callable gets the result in holdfast::driver::process(); with `holdfast::async`
/// it is awaited (C++20).
///
/// The guarantees and caveats are those of the C library: see its header, holdfast.h.
#ifndef HOLDFAST_HOLDFAST_HPP
#define HOLDFAST_HOLDFAST_HPP

/// Distributed locks.
namespace holdfast
{
}

#include <holdfast/cpp/driver.hpp>
#include <holdfast/cpp/limit.hpp>
#include <holdfast/cpp/locks.hpp>
#include <holdfast/cpp/parties.hpp>

#endif
