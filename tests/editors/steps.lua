-- What the sessions share: waiting for a state of the editor, with the time that it took, and what is in the buffer.

local M = {}
local begin = vim.loop.hrtime()

function M.tell(what)
  io.stderr:write(("%6.1f s  %s\n"):format((vim.loop.hrtime() - begin) / 1e9, what))
  begin = vim.loop.hrtime()
end

function M.wait_until(what, holds)
  assert(vim.wait(60000, holds, 20), what .. "; there is " .. vim.inspect(vim.diagnostic.get(0)))
  M.tell(what)
end

function M.wait_for_server()
  M.wait_until("the server", function() return #vim.tbl_values(vim.lsp.buf_get_clients(0)) == 1 end)
end

function M.lens(beginning)
  for _, found in ipairs(vim.lsp.codelens.get(0)) do
    if vim.startswith(found.command.title, beginning) then
      return found
    end
  end
end

-- Lenses come when they are asked for, so each round asks again.
function M.wait_for_lenses(what, ...)
  local beginnings = { ... }
  local function all_there()
    return #vim.tbl_filter(M.lens, beginnings) == #beginnings
  end
  for _ = 1, 160 do
    vim.lsp.codelens.refresh()
    if vim.wait(500, all_there, 20) then
      return M.tell(what)
    end
  end
  error(what .. "; there is " .. vim.inspect(vim.lsp.codelens.get(0)))
end

function M.go_to_lens(beginning)
  vim.api.nvim_win_set_cursor(0, { M.lens(beginning).range.start.line + 1, 0 })
end

-- Answers the next question, such as which lens of a line is meant, with the first item that contains the words.
function M.will_choose(words)
  vim.ui.select = function(items, options, on_choice)
    for index, item in ipairs(items) do
      if options.format_item(item):find(words, 1, true) then
        return on_choice(item, index)
      end
    end
    error(words .. " is not offered")
  end
end

function M.finding(words)
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    if diagnostic.message:find(words, 1, true) then
      return diagnostic
    end
  end
end

function M.play(session)
  local passed, message = xpcall(session, debug.traceback)
  if not passed then
    io.stderr:write(message .. "\n")
  end
  vim.cmd(passed and "wq" or "cquit")
end

return M
