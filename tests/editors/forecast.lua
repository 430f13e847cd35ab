-- What a user of Neovim does to forecast a function: the lens above it, then what the lens and the lines say.
-- The environment's EXPECTED is what the command line says of it: what the lens shows, and what stands behind the line.

local begin = vim.loop.hrtime()
local lens_says, line_says = unpack(vim.split(vim.env.EXPECTED, "|", { plain = true }))

local function tell(what)
  io.stderr:write(("%6.1f s  %s\n"):format((vim.loop.hrtime() - begin) / 1e9, what))
  begin = vim.loop.hrtime()
end

local function lens(beginning)
  for _, found in ipairs(vim.lsp.codelens.get(0)) do
    if vim.startswith(found.command.title, beginning) then
      return found
    end
  end
end

local function wait_for_lens(what, beginning)
  for _ = 1, 160 do
    vim.lsp.codelens.refresh()
    if vim.wait(500, function() return lens(beginning) end, 20) then
      return tell(what)
    end
  end
  error(what .. "; there is " .. vim.inspect(vim.lsp.codelens.get(0)))
end

local function answers(method, params)
  local found = {}
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 10000) or {}) do
    vim.list_extend(found, answer.result or {})
  end
  return found
end

local function session()
  assert(vim.wait(60000, function() return #vim.tbl_values(vim.lsp.buf_get_clients(0)) == 1 end, 50), "the server")
  wait_for_lens("an offer to forecast", "▶ Forecast")
  local offered = lens("▶ Forecast")
  vim.api.nvim_win_set_cursor(0, { offered.range.start.line + 1, 0 })
  vim.ui.select = function(lenses, options, on_choice) -- a line with several lenses asks which one is meant
    for index, found in ipairs(lenses) do
      if options.format_item(found):find("▶ Forecast", 1, true) then
        return on_choice(found, index)
      end
    end
  end
  vim.lsp.codelens.run()
  wait_for_lens("the forecast that the command line makes", lens_says)
  local whole = { start = { line = 0, character = 0 }, ["end"] = { line = vim.fn.line("$"), character = 0 } }
  local hints = answers("textDocument/inlayHint", { textDocument = vim.lsp.util.make_text_document_params(0), range = whole })
  local labels = vim.tbl_map(function(hint) return hint.label end, hints)
  assert(vim.tbl_contains(labels, line_says), vim.inspect(labels))
  tell("what the line holds")
end

local passed, message = xpcall(session, debug.traceback)
if not passed then
  io.stderr:write(message .. "\n")
end
vim.cmd(passed and "wq" or "cquit")
