// The sub-commands of `weir`: what people read of each use case's result. commands.cpp lists them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/weir/command_line.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

struct ServeRequest;
struct ServeResult;

namespace app {
struct CalibrateRequest;
struct CalibrateResult;
struct CompareRequest;
struct CompareResult;
struct DoctorRequest;
struct DoctorResult;
struct EvaluateRequest;
struct EvaluateResult;
struct ExplainRequest;
struct ExplainResult;
struct ExportRequest;
struct ExportResult;
struct FitsRequest;
struct FitsResult;
struct LayoutRequest;
struct LayoutResult;
struct ModelRequest;
struct ModelResult;
struct PageRequest;
struct PageResult;
struct PlanRequest;
struct PlanResult;
struct ProfileRequest;
struct ProfileResult;
struct ReportsRequest;
struct ReportsResult;
struct ReproduceRequest;
struct ReproduceResult;
struct RunRequest;
struct RunResult;
struct ScheduleRequest;
struct ScheduleResult;
struct SimulateRequest;
struct SimulateResult;
struct SweepReply;
struct SweepRequest;
struct TuneRequest;
struct TuneResult;
}  // namespace app

void add_commands(CommandLine& line);

// The address of `weir serve`, on stdout at once: the command does not end by itself.
void print_link(const std::string& link);

// Data on stdout, remarks on stderr.
void print(Printout& out, const app::CalibrateRequest& request, const app::CalibrateResult& result);
void print(Printout& out, const app::CompareRequest& request, const app::CompareResult& result);
void print(Printout& out, const app::DoctorRequest& request, const app::DoctorResult& result);
void print(Printout& out, const app::EvaluateRequest& request, const app::EvaluateResult& result);
void print(Printout& out, const app::ExplainRequest& request, const app::ExplainResult& result);
void print(Printout& out, const app::ExportRequest& request, const app::ExportResult& result);
void print(Printout& out, const app::FitsRequest& request, const app::FitsResult& result);
void print(Printout& out, const app::LayoutRequest& request, const app::LayoutResult& result);
void print(Printout& out, const app::ModelRequest& request, const app::ModelResult& result);
void print(Printout& out, const app::PageRequest& request, const app::PageResult& result);
void print(Printout& out, const app::PlanRequest& request, const app::PlanResult& result);
void print(Printout& out, const app::ProfileRequest& request, const app::ProfileResult& result);
void print(Printout& out, const app::ReportsRequest& request, const app::ReportsResult& result);
void print(Printout& out, const app::ReproduceRequest& request, const app::ReproduceResult& result);
void print(Printout& out, const app::RunRequest& request, const app::RunResult& result);
void print(Printout& out, const app::ScheduleRequest& request, const app::ScheduleResult& result);
void print(Printout& out, const ServeRequest& request, const ServeResult& result);
void print(Printout& out, const app::SimulateRequest& request, const app::SimulateResult& result);
void print(Printout& out, const app::SweepRequest& request, const app::SweepReply& reply);
void print(Printout& out, const app::TuneRequest& request, const app::TuneResult& result);

}  // namespace weir
